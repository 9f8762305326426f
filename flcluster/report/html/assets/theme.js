"use strict";
// Colours as the reader's screen has them: light or dark. The palette is that of all pictures of the project.

const Theme = {
  dark: {}, // colours of the palette -> what takes their place on a dark ground
  scheme: window.matchMedia("(prefers-color-scheme: dark)"),

  variable(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  },

  /** Read #RRGGBB, ink, faint, paper or grid, perhaps followed by /PERCENT. */
  colour(word) {
    const [name, percent] = word.split("/");
    const plain = name.startsWith("#") ? name : Theme.variable(name);
    const solid = (Theme.scheme.matches && Theme.dark[plain]) || plain;
    if (percent === undefined) return solid;
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(solid.slice(at, at + 2), 16));
    return `rgba(${r},${g},${b},${Number(percent) / 100})`;
  },

  /** Copy traces or a layout with colours that fit the screen. */
  apply(value, key = "") {
    if (["x", "y", "text"].includes(key)) return value;
    if (Array.isArray(value)) return value.map((part) => Theme.apply(part, key));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, Theme.apply(part, name)]));
    }
    return typeof value === "string" && /colou?r$/.test(key) && !value.startsWith("rgba") ? Theme.colour(value) : value;
  },
};
