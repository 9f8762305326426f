"use strict";
// Draws the page from its data; a live page asks its server for newer ones.

let waiting = [];

/** Do something once all elements are in the page: a plot is as wide as its place. */
function queue(job) {
  waiting.push(job);
  if (waiting.length === 1) queueMicrotask(work);
}

function work() {
  const jobs = waiting;
  waiting = [];
  for (const job of jobs) job();
}

const sections = new Map();

/** Show the data: what is there already stays where it is. */
function render(told) {
  document.title = told.title;
  document.getElementById("title").textContent = told.title;
  document.getElementById("said").textContent = told.said;
  const nodes = told.sections.map((section) => {
    if (!sections.has(section.id)) {
      const body = element("div");
      const node = element("section", { id: section.id }, element("h2"), element("p", { className: "intro" }), body);
      sections.set(section.id, Object.assign(node, { body }));
    }
    const node = sections.get(section.id);
    node.children[0].textContent = section.title;
    node.children[1].textContent = section.intro;
    node.children[1].hidden = !section.intro;
    settle(node.body, drawBlocks(section.blocks, section.id));
    return node;
  });
  settle(document.getElementById("page"), nodes);
  const links = told.sections.map(({ id, title }) => element("a", { href: `#${id}` }, title));
  document.getElementById("contents").replaceChildren(...links);
}

/** Ask for newer data every two seconds, and say how that went. */
function follow(first) {
  const line = document.getElementById("live");
  let tag = "";
  line.hidden = false;
  const say = (text, lost) => {
    line.textContent = text;
    line.classList.toggle("lost", lost);
  };
  let state = first.state;
  say(state, false);
  const ask = async () => {
    try {
      const answer = await fetch("data.json", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
      if (answer.status === 200) {
        tag = answer.headers.get("ETag") || "";
        const told = await answer.json();
        state = told.state;
        render(told);
      }
      say(`${state}, as of ${new Date().toLocaleTimeString("en-GB")}`, false);
    } catch (error) {
      say("the server does not answer: start flcluster watch again", true);
    }
    setTimeout(ask, document.hidden ? 10000 : 2000);
  };
  setTimeout(ask, 2000);
}

const told = JSON.parse(document.getElementById("data").textContent);
Theme.dark = told.dark;
render(told);
Theme.scheme.addEventListener("change", () => {
  for (const place of document.querySelectorAll(".plot")) if (place.block) drawPlot(place, place.block);
});
if (told.live) follow(told);
