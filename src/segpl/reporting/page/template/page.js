// Pages through the slices of the cases that stand in the page. Volumes are sheets of slices; nothing is fetched.
"use strict";
(() => {
  const store = document.getElementById("viewer-data");
  if (!store) return;
  const data = JSON.parse(store.textContent);
  const element = (id) => document.getElementById(id);
  const viewer = element("viewer"), slider = element("viewer-slice"), panels = element("viewer-panels");
  const cases = element("viewer-case"), regions = element("viewer-region"), place = element("viewer-place");
  const toggles = { t: element("show-truth"), m: element("show-mask"), e: element("show-errors"), u: element("show-doubt") };
  const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const colours = Object.fromEntries(Object.entries(data.colours).map(([name, hex]) => [name, rgb(hex)]));
  const paints = data.regions.map((region) => rgb(region.colour));
  let current = null;

  const option = (text, value) => Object.assign(document.createElement("option"), { textContent: text, value });
  data.cases.forEach((one, number) => cases.append(option(one.name, number)));
  data.regions.forEach((one, number) => regions.append(option(one.name, number)));
  document.querySelectorAll(".key").forEach((key) => { key.style.background = data.colours[key.dataset.key]; });

  async function pixels(source) {
    const picture = new Image();
    picture.src = source;
    await picture.decode();
    const sheet = document.createElement("canvas");
    [sheet.width, sheet.height] = [picture.width, picture.height];
    const context = sheet.getContext("2d", { willReadFrequently: true });
    context.drawImage(picture, 0, 0);
    const all = context.getImageData(0, 0, sheet.width, sheet.height).data;
    return { width: sheet.width, values: Uint8Array.from({ length: all.length / 4 }, (_, at) => all[4 * at]) };
  }

  function tile(sheet, one, slice) {
    const values = new Uint8Array(one.rows * one.columns);
    const top = Math.floor(slice / one.across) * one.rows, left = (slice % one.across) * one.columns;
    for (let y = 0; y < one.rows; y++) {
      const start = (top + y) * sheet.width + left;
      values.set(sheet.values.subarray(start, start + one.columns), y * one.columns);
    }
    return values;
  }

  function panel(one, title) {
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    const canvas = Object.assign(document.createElement("canvas"), { width: one.columns, height: one.rows });
    canvas.style.aspectRatio = one.aspect;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${title}, ${one.name}`);
    caption.textContent = title;
    figure.append(caption, canvas);
    panels.append(figure);
    return canvas;
  }

  async function open(number) {
    const one = data.cases[number];
    viewer.setAttribute("aria-busy", "true");
    const [image, truth, ...rest] = await Promise.all([one.image, one.truth,
      ...one.methods.flatMap((method) => [method.mask, method.doubt])].map((source) => source && pixels(source)));
    if (Number(cases.value) !== number) return;
    panels.replaceChildren();
    const views = [{ canvas: panel(one, "image") }];
    one.methods.forEach((method, at) =>
      views.push({ canvas: panel(one, method.name), mask: rest[2 * at], doubt: rest[2 * at + 1] }));
    current = { one, image, truth, views };
    slider.max = one.slices - 1;
    slider.value = one.start;
    draw();
    viewer.removeAttribute("aria-busy");
  }

  function draw() {
    if (!current) return;
    const { one, image, truth, views } = current, slice = Number(slider.value), region = Number(regions.value);
    const grey = tile(image, one, slice), there = tile(truth, one, slice);
    for (const view of views) {
      const found = view.mask && tile(view.mask, one, slice), doubt = view.doubt && tile(view.doubt, one, slice);
      const picture = new ImageData(one.columns, one.rows);
      for (let at = 0; at < grey.length; at++) {
        const colour = voxel(at, grey[at], there, found, doubt, region, one.columns);
        picture.data.set([colour[0], colour[1], colour[2], 255], 4 * at);
      }
      view.canvas.getContext("2d").putImageData(picture, 0, 0);
    }
    const said = `slice ${one.numbers[slice]} of ${one.depth}`;
    place.textContent = said;
    slider.setAttribute("aria-valuetext", said);
  }

  function voxel(at, grey, there, found, doubt, region, columns) {
    let colour = [grey, grey, grey];
    const mix = (other, share) => { colour = colour.map((value, n) => value * (1 - share) + other[n] * share); };
    if (found && toggles.m.checked && !toggles.e.checked && found[at]) mix(paints[31 - Math.clz32(found[at])] || paints[0], 0.55);
    if (found && toggles.e.checked) {
      const mine = found[at] >> region & 1, real = there[at] >> region & 1;
      if (mine || real) mix(mine ? (real ? colours.right : colours.wrong) : colours.missed, 0.65);
    }
    if (doubt && toggles.u.checked && doubt[at]) {
      const share = doubt[at] / data.levels;
      mix([255, 90 + 150 * share, 255 * share], 0.25 + 0.7 * share);
    }
    if (toggles.t.checked && there[at] && rim(there, at, columns)) colour = colours.truth;
    return colour;
  }

  const rim = (there, at, columns) =>
    [at - 1, at + 1, at - columns, at + columns].some((next) => there[next] < there[at]);

  function turn(select, by) {
    const next = Math.min(Math.max(Number(select.value) + by, 0), data.cases.length - 1);
    if (next !== Number(select.value)) { select.value = next; open(next); }
  }

  function move(by) {
    slider.value = Math.min(Math.max(Number(slider.value) + by, 0), Number(slider.max));
    draw();
  }

  const keys = { ArrowLeft: () => move(-1), ArrowRight: () => move(1), ArrowUp: () => turn(cases, -1), ArrowDown: () => turn(cases, 1) };
  for (const [key, box] of Object.entries(toggles)) {
    keys[key] = () => { box.checked = !box.checked; draw(); };
    box.addEventListener("change", draw);
  }
  viewer.addEventListener("keydown", (event) => {
    if (event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  slider.addEventListener("input", draw);
  regions.addEventListener("change", draw);
  cases.addEventListener("change", () => open(Number(cases.value)));
  viewer.hidden = false;
  open(0);
})();
