"use strict";
// Plots: what Python says of them, with the look that all of them share.

const CONFIG = {
  responsive: true,
  displaylogo: false,
  displayModeBar: "hover",
  plotlyServerURL: "", // nothing leaves the page
  modeBarButtonsToRemove: ["select2d", "lasso2d", "sendChartToCloud"],
};

/** Return how high a plot is: where names take several lines, what is drawn keeps its height. */
function heightOf(block, width) {
  const names = block.traces.filter((trace) => trace.showlegend !== false && trace.name).length;
  const lines = width < 640 ? names : Math.ceil(names / 6);
  return block.height + 19 * Math.max(0, lines - 2);
}

/** Lay what a plot says over what all say; axes are merged. */
function layoutOf(block, height) {
  const axis = { gridcolor: "grid", zerolinecolor: "grid", linecolor: "faint", automargin: true, title: { standoff: 8 } };
  const own = block.layout || {};
  const merged = (name) => ({ ...axis, ...own[name], title: { ...axis.title, ...(own[name] || {}).title } });
  const base = {
    height,
    margin: { l: 48, r: 12, t: 30, b: 44 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: "ink" },
    hoverlabel: { bgcolor: "paper", bordercolor: "faint", font: { color: "ink" }, namelength: -1 },
    legend: { orientation: "h", yanchor: "bottom", y: 1.02, xanchor: "left", x: 0, traceorder: "normal" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: "faint", activecolor: "ink" },
    hovermode: "closest",
    uirevision: block.revision || "kept",
  };
  return { ...base, ...own, xaxis: merged("xaxis"), yaxis: merged("yaxis") };
}

/** Draw a plot into its place, or draw it anew where it is: a zoom stays. */
function drawPlot(place, block) {
  place.block = block;
  const height = heightOf(block, place.clientWidth);
  place.style.height = `${height}px`;
  return Plotly.react(place, Theme.apply(block.traces), Theme.apply(layoutOf(block, height)), CONFIG);
}

/** Turn a group's numbers into a line, with a band where there are deviations, and its events into marks. */
function curveTraces(group, column, axis) {
  const numbers = group.y[column];
  if (!numbers) return [];
  const known = numbers.mean.map((value, i) => i).filter((i) => numbers.mean[i] !== null && group.x[axis][i] !== null);
  const pick = (values) => known.map((i) => values[i]);
  const x = pick(group.x[axis]);
  const mean = pick(numbers.mean);
  const shared = { type: "scatter", legendgroup: group.name, name: group.name };
  const line = { ...shared, x, y: mean, mode: x.length < 3 ? "lines+markers" : "lines", line: { color: group.ink, width: 2 } };
  if (!numbers.std) return [line];
  const std = pick(numbers.std).map((value) => value || 0);
  line.text = std.map((value) => `±${Number(value.toPrecision(2))}`);
  const upper = mean.map((value, i) => value + std[i]);
  const lower = mean.map((value, i) => value - std[i]);
  const outline = { x: [...x, ...x.slice().reverse()], y: [...upper, ...lower.reverse()], fill: "toself", mode: "lines" };
  const bare = { line: { width: 0, color: group.ink }, hoverinfo: "skip", showlegend: false };
  return [{ ...shared, ...outline, ...bare, fillcolor: `${group.ink}/18` }, line];
}

/** Mark what happened on the axis: a dotted line each, and a triangle that tells of it. */
function eventMarks(groups, axis) {
  const told = groups.flatMap((group) => group.events.map((event) => ({ ...event, group, x: group.x[axis][event.at] })));
  const shapes = told.map(({ x, group }) => ({
    type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, layer: "below",
    line: { color: `${group.ink}/45`, width: 1, dash: "dot" },
  }));
  const traces = groups.filter((group) => group.events.length).map((group) => ({
    type: "scatter", mode: "markers", name: group.name, legendgroup: group.name, showlegend: false, yaxis: "y2",
    x: group.events.map((event) => group.x[axis][event.at]), y: group.events.map(() => 0), hoverinfo: "x+text",
    text: group.events.map((event) => event.text), cliponaxis: false,
    marker: { symbol: "triangle-up", size: 9, color: group.ink },
  }));
  return { shapes, traces };
}

/** Make the plot of one column of the curves against one axis. */
function curvePlot(block, column, axis) {
  const marks = eventMarks(block.groups, axis);
  const words = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const title = (list, name) => list.find((entry) => entry.name === name).title;
  return {
    height: 400,
    revision: `${column} ${axis}`,
    traces: [...block.groups.flatMap((group) => curveTraces(group, column, axis)), ...marks.traces],
    layout: {
      xaxis: { title: { text: title(block.xs, axis) } },
      yaxis: { title: { text: words(title(block.columns, column)) } },
      yaxis2: { overlaying: "y", range: [0, 1], fixedrange: true, visible: false },
      shapes: marks.shapes,
    },
  };
}
