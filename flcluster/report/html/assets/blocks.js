"use strict";
// One way to make, and to bring up to date, each kind of block.

const NUMBER = /^[-+±]?[\d.]/;

const Kinds = {
  table: {
    make: () => element("div", { className: "table" }),
    update(node, block) {
      const numeric = block.heads.map((_, i) => i > 0 && block.rows.some((row) => NUMBER.test(row[i])));
      const side = (i) => (numeric[i] ? "number" : "");
      const head = element("tr", {}, ...block.heads.map((text, i) => element("th", { scope: "col", className: side(i) }, text)));
      const rows = block.rows.map((row, at) => {
        const cells = row.map((text, i) =>
          element("td", { className: `${side(i)} ${text ? "" : "empty"}`.trim(), data: { label: block.heads[i] } }, element("span", {}, text)));
        return element("tr", { className: block.dim.includes(at) ? "dim" : "" }, ...cells);
      });
      const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
      const caption = block.caption ? element("p", { className: "caption" }, block.caption) : null;
      node.replaceChildren(element("h3", { hidden: !block.title }, block.title), element("div", { className: "scroll" }, table), ...(caption ? [caption] : []));
    },
  },
  notes: {
    make: () => element("ul", { className: "notes" }),
    update: (node, block) => node.replaceChildren(...block.lines.map((line) => element("li", {}, line))),
  },
  details: {
    make: () => element("details", {}, element("summary"), element("pre")),
    update(node, block) {
      node.firstChild.textContent = block.title;
      if (node.lastChild.textContent !== block.text) node.lastChild.textContent = block.text;
    },
  },
  pictures: {
    make: () => element("div"),
    update(node, block) {
      const figure = ({ title, src }) =>
        element("figure", {}, element("figcaption", {}, title), element("img", { src, alt: title }));
      node.replaceChildren(...block.images.map(figure));
    },
  },
  plot: {
    make: () => element("div", {}, element("h3"), element("div", { className: "plot" })),
    update(node, block) {
      node.firstChild.textContent = block.title;
      node.firstChild.hidden = !block.title;
      queue(() => drawPlot(node.lastChild, block));
    },
  },
  choice: {
    make(id) {
      const node = element("div", { className: "choice" });
      const { node: label, select } = selection("", (value) => { node.chosen = value; show(node, id); });
      Object.assign(node, { label, select, body: element("div") });
      node.append(label, node.body);
      return node;
    },
    update(node, block, id) {
      node.block = block;
      node.label.firstChild.nodeType === Node.TEXT_NODE || node.label.prepend(block.label);
      node.select.ariaLabel = block.label;
      node.label.hidden = block.options.length < 2;
      node.label.style.display = node.label.hidden ? "none" : "";
      show(node, id);
    },
  },
  curves: {
    make() {
      const node = element("div", { className: "curves" });
      const column = selection("show", (value) => { node.column = value; curves(node); });
      const axis = selection("over", (value) => { node.axis = value; curves(node); });
      Object.assign(node, { columns: column.select, axes: axis.select, place: element("div", { className: "plot" }) });
      node.append(column.node, axis.node, node.place);
      return node;
    },
    update(node, block) {
      node.block = block;
      curves(node);
    },
  },
};

/** Show the option of a choice that is chosen. */
function show(node, id) {
  const options = node.block.options;
  node.chosen = offer(node.select, options.map(({ name }) => [name, name]), node.chosen);
  const option = options.find(({ name }) => name === node.chosen);
  settle(node.body, drawBlocks(option.blocks, `${id}/${option.name}`));
}

/** Draw the column of the curves that is chosen, against the axis that is chosen. */
function curves(node) {
  const { columns, xs } = node.block;
  node.column = offer(node.columns, columns.map(({ name, title }) => [name, title]), node.column);
  node.axis = offer(node.axes, xs.map(({ name, title }) => [name, title]), node.axis);
  queue(() => drawPlot(node.place, curvePlot(node.block, node.column, node.axis)));
}

const made = new Map();

/** Return the elements of blocks: those that were there, brought up to date, or new ones. */
function drawBlocks(blocks, id) {
  return blocks.map((block, at) => {
    const key = `${id}/${at}/${block.kind}`;
    if (!made.has(key)) made.set(key, Kinds[block.kind].make(key));
    const node = made.get(key);
    Kinds[block.kind].update(node, block, key);
    return node;
  });
}
