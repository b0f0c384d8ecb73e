// The colours of regions (Okabe and Ito: distinct also for colour-blind readers) and of overlays.

const REGIONS = [
  [230, 159, 0],
  [86, 180, 233],
  [0, 158, 115],
  [240, 228, 66],
  [204, 121, 167],
  [213, 94, 0],
  [0, 114, 178],
];
const OUTLINE = [255, 255, 255];
const CERTAIN = 0.4; // bits: below, as at p = 0.08, the overlay of uncertainty is transparent

export function regionColour(index) {
  return REGIONS[index % REGIONS.length];
}

export function css(colour) {
  return `rgb(${colour.join(" ")})`;
}

/** The colours of the drawing, for a list that says of each region whether it is shown. */
export function drawingColours(visible) {
  return labelColours(visible.map((_, index) => regionColour(index)), visible);
}

/** The colours of the data's label: white, so that it differs from every mask. */
export function outlineColours(count) {
  return labelColours(new Array(count).fill(OUTLINE), new Array(count).fill(true));
}

function labelColours(colours, visible) {
  const all = [[0, 0, 0], ...colours];
  const isShown = [false, ...visible];
  return {
    R: all.map((colour) => colour[0]),
    G: all.map((colour) => colour[1]),
    B: all.map((colour) => colour[2]),
    A: isShown.map((shown) => (shown ? 255 : 0)),
    I: all.map((_, index) => index),
    labels: all.map((_, index) => String(index)),
  };
}

/** From transparent at p = 0 to yellow at p = 1. */
export const PROBABILITY = {
  R: [0, 60, 200, 255, 255],
  G: [0, 15, 60, 160, 255],
  B: [0, 110, 90, 20, 120],
  A: [0, 60, 130, 180, 210],
  I: [0, 32, 96, 176, 255],
};

/** The entropy of p in colours: brightest at p = 1/2, transparent where the model is certain. */
export const UNCERTAINTY = uncertaintyColours();

function uncertaintyColours() {
  const map = { R: [], G: [], B: [], A: [], I: [] };
  for (let step = 0; step <= 20; step++) {
    const bits = entropy(step / 20);
    const strength = Math.max(0, (bits - CERTAIN) / (1 - CERTAIN));
    map.I.push(Math.round((255 * step) / 20));
    map.R.push(Math.round(255 * Math.min(1, 0.5 + strength)));
    map.G.push(Math.round(230 * strength));
    map.B.push(30);
    map.A.push(Math.round(200 * strength));
  }
  return map;
}

function entropy(p) {
  if (p <= 0 || p >= 1) return 0;
  return -p * Math.log2(p) - (1 - p) * Math.log2(1 - p);
}
