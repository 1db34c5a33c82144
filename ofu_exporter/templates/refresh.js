// Keeps a page fresh: what the agent has to show now takes the place of what is shown; order and focus stay.
const focusable = () => [...document.querySelectorAll("main a, main button")];
const refresh = async () => {
  if (document.hidden) return;
  try {
    const signal = AbortSignal.timeout?.(4000);  // else a browser waits for minutes for an agent that hangs
    const answer = await fetch(location.href, {headers: {accept: "text/html"}, signal});
    if (!answer.ok) throw answer.status;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const main = fresh.querySelector("main");
    if (!main) throw 0;
    const place = focusable().indexOf(document.activeElement);
    document.title = fresh.title;
    document.querySelector("main").replaceWith(main);
    dress();
    focusable()[place]?.focus({preventScroll: true});
  } catch (why) {
    const seen = document.getElementById("seen");
    if (seen) seen.textContent = why > 0 ? `the agent answers ${why}` : "the agent does not answer";
  }
};
setInterval(refresh, 5000);
