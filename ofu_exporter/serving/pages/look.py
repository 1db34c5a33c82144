"""The look of the pages, and the script that keeps them fresh: both stand in each page."""

from __future__ import annotations

import base64
import hashlib

STYLE = """
:root{color-scheme:light dark;--back:#f4f6f8;--card:#fff;--ink:#14181d;--soft:#56606c;--line:#dfe4e9;--used:#0f7a53;
--clock:#b97700;--idle:#e3e8ed;--bad:#a8200f;--bad-back:#fdebe8;--good-back:#e3f4ec;--link:#0b57a4;--mfu:#6b3fa0}
@media(prefers-color-scheme:dark){:root{--back:#0e1216;--card:#161c22;--ink:#e7ebf0;--soft:#9aa6b3;--line:#2a333d;
--used:#43c08a;--clock:#e5b145;--idle:#2b3540;--bad:#ff9185;--bad-back:#3b1d1a;--good-back:#14301f;--link:#80b8ff;
--mfu:#c3a1f5}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.45 system-ui,sans-serif;
font-variant-numeric:tabular-nums}
main{max-width:78rem;margin:auto;padding:1.1rem 1rem 3rem}
a{color:var(--link)}a:focus-visible,button:focus-visible{outline:2px solid var(--link);outline-offset:2px}
header{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;align-items:baseline}
h1{font-size:1.45rem;margin:0;overflow-wrap:anywhere}h2{font-size:1rem;margin:0 0 .5rem}
nav{margin-left:auto;display:flex;flex-wrap:wrap;gap:0 1rem}
.soft,small,caption,footer{color:var(--soft)}footer{font-size:.87em}
.note{background:var(--bad-back);color:var(--bad);border-radius:.5rem;padding:.5rem .8rem;margin:.8rem 0 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:.8rem;margin:1rem 0}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.8rem 1rem;margin:0}
.card{margin:0 0 1rem;overflow-x:auto}
.tile b{display:block;font-size:1.8rem;line-height:1.2}.tile.bad b{color:var(--bad)}
table{border-collapse:collapse;width:100%}
th,td{padding:.38rem .6rem;text-align:left;border-top:1px solid var(--line);vertical-align:middle;font-weight:400}
thead th{border:0;color:var(--soft);font-size:.87em;white-space:nowrap}
th button{all:unset;cursor:pointer}th[aria-sort=ascending] button::after{content:" \\2191"}
th[aria-sort=descending] button::after{content:" \\2193"}
.num{text-align:right;white-space:nowrap}td b,th b{font-weight:600}
.away td,.away th{background:var(--bad-back)}.idle{color:var(--soft)}
.bar{display:block;width:100%;min-width:8rem;height:.8rem;border-radius:.2rem;background:var(--idle)}
.spark{display:block;width:8rem;height:1.7rem}.chart{display:block;width:100%;height:11rem}
.used{fill:var(--used)}.clock{fill:var(--clock)}.rest{fill:var(--idle)}
.line{fill:none;stroke:var(--used);stroke-width:1.6;vector-effect:non-scaling-stroke}
.line.mfu{stroke:var(--mfu);stroke-dasharray:5 3}.grid{stroke:var(--line);vector-effect:non-scaling-stroke}
.key{display:flex;flex-wrap:wrap;gap:0 1.1rem;margin:0 0 .5rem}.key svg{width:.8em;height:.8em;margin-right:.35em}
.chip{display:inline-block;border-radius:1em;padding:.08em .7em;background:var(--idle)}
.chip.good{background:var(--good-back)}.chip.bad{background:var(--bad-back);color:var(--bad);font-weight:600}
.card{overflow-wrap:break-word}.wrap,.job{overflow-wrap:anywhere}.job{min-width:7.5rem}
@media(max-width:64rem){.job{min-width:4.4rem}.num small{display:block;white-space:normal}thead th{white-space:normal}}
@media(max-width:46rem){nav{margin-left:0}.phone{display:none}main{padding:.7rem .5rem 2rem}.card{padding:.7rem .5rem}
th,td{padding:.38rem .25rem}.bar{min-width:3rem}}
@media print{nav,th button::after{display:none}.card{break-inside:avoid}}
"""

SCRIPT = """
(()=>{let sorts={};
const cell=(row,n)=>row.cells[n].dataset.value??row.cells[n].textContent;
const sort=(table,n,down)=>{const body=table.tBodies[0];
[...body.rows].sort((a,b)=>{const[x,y]=[cell(a,n),cell(b,n)],[p,q]=[parseFloat(x),parseFloat(y)];
const order=isNaN(p)||isNaN(q)?(isNaN(p)-isNaN(q))||x.localeCompare(y,undefined,{numeric:true}):p-q;
return down?-order:order}).forEach(row=>body.append(row));
[...table.tHead.rows[0].cells].forEach((head,i)=>i===n?head.setAttribute("aria-sort",down?"descending":"ascending")
:head.removeAttribute("aria-sort"))};
const dress=()=>document.querySelectorAll("table.sorts").forEach(table=>{
[...table.tHead.rows[0].cells].forEach((head,n)=>{const button=document.createElement("button");
button.textContent=head.textContent;head.replaceChildren(button);
button.onclick=()=>{const down=!(sorts[table.id]?.[0]===n&&sorts[table.id][1]);
sorts[table.id]=[n,down];sort(table,n,down)}});
if(sorts[table.id])sort(table,...sorts[table.id])});
const focusable=()=>[...document.querySelectorAll("main a,main button")];
const refresh=async()=>{if(document.hidden)return;
try{const answer=await fetch(location.href,{headers:{accept:"text/html"}});if(!answer.ok)throw 0;
const fresh=new DOMParser().parseFromString(await answer.text(),"text/html");
const main=fresh.querySelector("main");if(!main)throw 0;
const held=focusable().indexOf(document.activeElement);
document.title=fresh.title;document.querySelector("main").replaceWith(main);dress();
focusable()[held]?.focus({preventScroll:true})}
catch{const seen=document.getElementById("seen");if(seen)seen.textContent="the agent does not answer"}};
dress();setInterval(refresh,5000)})();
"""


def _allowed(text: str) -> str:
    """How a Content-Security-Policy names a text that stands in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; style-src {_allowed(STYLE)}; script-src {_allowed(SCRIPT)}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing but the page itself may style it, run in it or be asked by it."""
