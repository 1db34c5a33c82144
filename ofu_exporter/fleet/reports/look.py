"""Gives the pages of fleets their look, light and dark and in print, and lets a table be sorted by its heads."""

STYLE = """
:root{--bg:#f6f7f9;--card:#fff;--ink:#171b21;--soft:#56606d;--line:#e1e6ec;--used:#12795a;--mid:#3f86bd;--held:#b3bfcc;
--idle:#e3e8ee;--bad:#b42318}
@media screen and (prefers-color-scheme:dark){
:root{--bg:#0f1318;--card:#171d24;--ink:#e8ecf1;--soft:#9aa6b4;--line:#2a333d;
--used:#3fb983;--mid:#5a9fd4;--held:#566372;--idle:#27303a;--bad:#ff8f85}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.45 system-ui,"Segoe UI",Roboto,sans-serif;
font-variant-numeric:tabular-nums}
main{max-width:80rem;margin:auto;padding:1.4rem 1rem 3rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1rem;margin:0 0 .6rem}
h3{font-size:.95rem;margin:1rem 0 .3rem}code{overflow-wrap:anywhere}small,.soft{color:var(--soft);font-size:.85em}
.lead{font-size:1.14rem;max-width:54rem;margin:.5rem 0 1.1rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:.7rem;padding:.9rem 1.1rem;margin:0 0 1rem;
overflow-x:auto}
.two{display:grid;grid-template-columns:1fr 1fr;gap:0 1rem}.two>*{min-width:0}
.step{display:grid;grid-template-columns:12rem 1fr 18rem;gap:1rem;align-items:center;padding:.22rem 0}
.step small{display:block}.step.part b{font-weight:500}.step.part .name{padding-left:1rem}
.track{background:var(--idle);border-radius:.3rem;height:1.4rem;overflow:hidden}.part .track{height:.8rem}
.track i{display:block;height:100%;background:var(--held)}.track .active{background:var(--mid)}
.track .effective{background:var(--used)}.val{text-align:right}
svg{width:100%;max-width:46rem;height:auto;display:block}svg text{fill:var(--soft);font-size:11px}
svg .lab{fill:var(--bad);font-weight:600}.g{stroke:var(--line)}.diag{stroke:var(--soft);stroke-dasharray:4 3}
.p{fill:var(--used);opacity:.42}.pf{fill:var(--bad);opacity:.62}.bars rect{fill:var(--used)}
.area{fill:var(--held);opacity:.5}.ofu{fill:none;stroke:var(--used);stroke-width:1.6}
.mfu{fill:none;stroke:var(--bad);stroke-width:1.3;stroke-dasharray:5 3}
.act{fill:none;stroke:var(--mid);stroke-width:1.1}
svg.heat text{font-size:8.5px}
.heat rect{fill:var(--used)}.key b{display:inline-block;width:1.6rem;border-top:3px solid;margin:0 .3rem .25rem 1rem}
.key .mfu{border-top-style:dashed}.plot path{vector-effect:non-scaling-stroke;stroke-linecap:round}
.over svg{touch-action:pan-y;cursor:crosshair;user-select:none}.over:focus-visible{outline:2px solid var(--mid)}
.at{stroke:var(--ink);stroke-width:1}.chosen{fill:var(--mid);opacity:.25}.said{margin:.3rem 0 0;min-height:1.3em}
.zoom button{font:inherit;font-size:.85em;color:var(--ink);background:var(--bg);border:1px solid var(--line);
border-radius:.3rem;padding:.1rem .5rem;margin:.3rem .4rem 0 0;cursor:pointer}.zoom button:disabled{opacity:.5}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .5rem;border-top:1px solid var(--line);font-weight:400;vertical-align:top}
thead th{border:0;color:var(--soft);font-size:.85em;white-space:nowrap}tbody tr:hover{background:var(--bg)}
th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid var(--mid)}
th[aria-sort=ascending] button:after{content:" \\2191"}th[aria-sort=descending] button:after{content:" \\2193"}
.num{text-align:right;white-space:nowrap}.bad{color:var(--bad)}tfoot th,tfoot td{font-weight:600}
ul{margin:0;padding-left:1.1rem}li{padding:.15rem 0}footer{color:var(--soft);font-size:.85em}
@media(max-width:52rem){.two{grid-template-columns:1fr}.step{grid-template-columns:1fr auto}
.track{grid-column:1/-1;order:3}}
@page{margin:12mm}
@media print{html{font-size:11px}body{background:#fff;font-size:11px}main{max-width:none;padding:0}svg{max-width:none}
.card{break-inside:avoid;border-color:#ccc;overflow:visible}.long{break-inside:auto}tr,svg{break-inside:avoid}
h2,h3{break-after:avoid}.two{grid-template-columns:1fr 1fr}.step{grid-template-columns:12rem 1fr 15rem}
.track{grid-column:auto;order:0}.track,.track i,.key b{print-color-adjust:exact;-webkit-print-color-adjust:exact}
.zoom,.at,.said{display:none}.heat{max-height:85vh}thead{display:table-header-group;break-inside:avoid}
table{font-size:9px}th button{display:contents}th,td{padding:.15rem .3rem}}
""".replace("\n", "")
SCRIPT = """
document.querySelectorAll("th button").forEach(function(b){b.addEventListener("click",function(){
var h=b.parentNode,t=h.closest("table"),n=[].indexOf.call(h.parentNode.children,h),
up=h.getAttribute("aria-sort")=="descending",body=t.tBodies[0];
function v(r){var c=r.children[n],d=c.textContent;if(c.className!="num")return d;
d=parseFloat(d.replace(/,/g,""));return isNaN(d)?-Infinity:d}
[].slice.call(body.rows).sort(function(x,y){var a=v(x),c=v(y);
return (a<c?-1:a>c?1:0)*(up?1:-1)}).forEach(function(r){body.appendChild(r)});
[].forEach.call(h.parentNode.children,function(o){o.removeAttribute("aria-sort")});
h.setAttribute("aria-sort",up?"ascending":"descending")})});
""".replace("\n", "")
"""Sorts numbers as they are shown, others as texts; what is not known comes first. All is there without it, too."""
