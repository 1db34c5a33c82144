document.querySelectorAll(".over").forEach(function(box){
var svg=box.querySelector("svg"),plot=box.querySelector(".plot"),when=box.querySelectorAll(".when"),
start=+box.dataset.start,step=+box.dataset.step,
ratios=JSON.parse(box.dataset.ratios),gpus=JSON.parse(box.dataset.gpus),
count=gpus.length,from=0,to=count,at=-1,held=null,
left=plot.x.baseVal.value,wide=plot.width.baseVal.value;
function made(name,kind,parent){
var one=document.createElementNS(parent.namespaceURI,name);
one.setAttribute("class",kind);return parent.appendChild(one)}
var cursor=made("path","at",plot),chosen=made("rect","chosen",plot),
bar=made("div","zoom",box),said=made("p","soft said",box);
said.setAttribute("aria-live","polite");
function time(place){return new Date((start+step*place)*1e3).toISOString().slice(0,16).replace("T"," ")}
function show(a,b){
var width=Math.min(count,Math.max(Math.min(4,count),b-a));
from=Math.round(Math.min(Math.max(0,a),count-width));to=Math.min(count,Math.round(from+width));
plot.setAttribute("viewBox",from+" 0 "+(to-from)+" 130");
when.forEach(function(text,n){text.textContent=time(from+(to-from)*n/2)});
box.dataset.seen=time(from)+" to "+time(to);
buttons[2].disabled=to-from==count}
function around(place,factor){
var width=(to-from)*factor,part=(place-from)/(to-from);show(place-width*part,place+width*(1-part))}
function middle(){return at>=from&&at<to?at+.5:(from+to)/2}
function read(place){
at=Math.min(count-1,Math.max(0,place));
if(at<from)show(at,at+to-from);
if(at>=to)show(at+1-to+from,at+1);
cursor.setAttribute("d","M"+(at+.5)+",0V130");
said.textContent=[time(at)+" to "+time(at+1)].concat(ratios.map(function(line){
return line[0]+" "+(line[1][at]==null?"-":line[1][at].toFixed(1)+"%")}),
(gpus[at]==null?"-":gpus[at].toLocaleString("en"))+" GPUs").join(" \u00b7 ")}
function place(event){
var dot=new DOMPoint(event.clientX,event.clientY).matrixTransform(svg.getScreenCTM().inverse());
return from+Math.min(1,Math.max(0,(dot.x-left)/wide))*(to-from)}
var buttons=[["Zoom in",function(){around(middle(),.5)}],["Zoom out",function(){around(middle(),2)}],
["All",function(){show(0,count)}]].map(function(each){
var button=made("button","",bar);button.type="button";button.textContent=each[0];
button.addEventListener("click",each[1]);return button});
made("small","",bar);
bar.lastChild.textContent="Drag to zoom, or press + and \u2212; arrows read values; Esc shows all.";
box.tabIndex=0;box.setAttribute("role","group");
box.setAttribute("aria-label",svg.getAttribute("aria-label"));
box.addEventListener("keydown",function(event){
if(event.ctrlKey||event.altKey||event.metaKey)return;
var far=event.shiftKey?Math.max(1,Math.round((to-from)/10)):1,now=at<0?Math.floor((from+to)/2):at;
var deed={ArrowLeft:function(){read(at<0?now:now-far)},ArrowRight:function(){read(at<0?now:now+far)},
"+":function(){around(middle(),.5)},"=":function(){around(middle(),.5)},
"-":function(){around(middle(),2)},Escape:function(){show(0,count)}}[event.key];
if(deed){deed();event.preventDefault()}});
svg.addEventListener("pointerdown",function(event){
if(event.button)return;
held=place(event);svg.setPointerCapture(event.pointerId)});
svg.addEventListener("pointermove",function(event){
var now=place(event);
if(held!=null){chosen.setAttribute("x",Math.min(held,now));chosen.setAttribute("width",Math.abs(now-held));
chosen.setAttribute("height",130)}
read(Math.min(to-1,Math.floor(now)))});
function letGo(event){
if(held==null)return;
var began=held,now=place(event);held=null;chosen.setAttribute("width",0);
if(event.type=="pointerup"&&Math.abs(now-began)>(to-from)/50)
show(Math.floor(Math.min(began,now)),Math.ceil(Math.max(began,now)))}
svg.addEventListener("pointerup",letGo);svg.addEventListener("pointercancel",letGo);
svg.addEventListener("dblclick",function(){show(0,count)});
show(0,count)});
