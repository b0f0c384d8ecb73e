// The viewer of the test cases. Every volume is a contact sheet: all slices in one picture.
// All data are in the page, so nothing is fetched.
"use strict";

(() => {
  const dataElement = document.getElementById("viewer-data");
  if (!dataElement) {
    return;
  }
  const data = JSON.parse(dataElement.textContent);

  const viewer = document.getElementById("viewer");
  const panels = document.getElementById("viewer-panels");
  const caseSelect = document.getElementById("viewer-case");
  const regionSelect = document.getElementById("viewer-region");
  const sliceSlider = document.getElementById("viewer-slice");
  const position = document.getElementById("viewer-position");
  const showTruth = document.getElementById("show-truth");
  const showMasks = document.getElementById("show-masks");
  const showErrors = document.getElementById("show-errors");
  const showUncertainty = document.getElementById("show-uncertainty");

  const MASK_OPACITY = 0.55;
  const ERROR_OPACITY = 0.65;

  const regionColours = data.regions.map((region) => toRgb(region.colour));
  const colours = {};
  for (const [name, hex] of Object.entries(data.colours)) {
    colours[name] = toRgb(hex);
  }

  // The case on screen with its decoded volumes; null until the first case is decoded.
  let current = null;

  // "#ff8000" -> [255, 128, 0]
  function toRgb(hex) {
    return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
  }

  function clamp(value, low, high) {
    return Math.min(Math.max(value, low), high);
  }

  // Decode a contact sheet. A missing one stays null.
  async function decode(source) {
    if (!source) {
      return null;
    }
    const picture = new Image();
    picture.src = source;
    await picture.decode();
    const canvas = document.createElement("canvas");
    canvas.width = picture.width;
    canvas.height = picture.height;
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(picture, 0, 0);
    const rgba = context.getImageData(0, 0, canvas.width, canvas.height).data;
    const values = new Uint8Array(rgba.length / 4);
    for (let pixel = 0; pixel < values.length; pixel++) {
      values[pixel] = rgba[4 * pixel];
    }
    return { width: canvas.width, values };
  }

  // The pixels of one slice, row by row. Without a contact sheet there are none.
  function cutSlice(sheet, shownCase, slice) {
    if (!sheet) {
      return null;
    }
    const { rows, columns, across } = shownCase;
    const top = Math.floor(slice / across) * rows;
    const left = (slice % across) * columns;
    const values = new Uint8Array(rows * columns);
    for (let row = 0; row < rows; row++) {
      const start = (top + row) * sheet.width + left;
      values.set(sheet.values.subarray(start, start + columns), row * columns);
    }
    return values;
  }

  // Append a panel with a title, and return its canvas.
  function addPanel(shownCase, title) {
    const canvas = document.createElement("canvas");
    canvas.width = shownCase.columns;
    canvas.height = shownCase.rows;
    canvas.style.aspectRatio = shownCase.aspect;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${title}, ${shownCase.name}`);
    const caption = document.createElement("figcaption");
    caption.textContent = title;
    const figure = document.createElement("figure");
    figure.append(caption, canvas);
    panels.append(figure);
    return canvas;
  }

  async function decodeMethod(method) {
    return {
      name: method.name,
      mask: await decode(method.mask),
      uncertainty: await decode(method.uncertainty),
    };
  }

  async function openCase(index) {
    const shownCase = data.cases[index];
    viewer.setAttribute("aria-busy", "true");
    const image = await decode(shownCase.image);
    const truth = await decode(shownCase.truth);
    const methods = await Promise.all(shownCase.methods.map(decodeMethod));
    if (Number(caseSelect.value) !== index) {
      return; // The user has chosen another case in the meantime.
    }
    panels.replaceChildren();
    const views = [{ canvas: addPanel(shownCase, "image"), mask: null, uncertainty: null }];
    for (const method of methods) {
      views.push({ canvas: addPanel(shownCase, method.name), ...method });
    }
    current = { shownCase, image, truth, views };
    sliceSlider.max = shownCase.slices - 1;
    sliceSlider.value = shownCase.start;
    draw();
    viewer.removeAttribute("aria-busy");
  }

  // Draw the current slice into all panels.
  function draw() {
    if (!current) {
      return;
    }
    const { shownCase, image, truth, views } = current;
    const slice = Number(sliceSlider.value);
    const grey = cutSlice(image, shownCase, slice);
    const truthBits = cutSlice(truth, shownCase, slice);
    for (const view of views) {
      const planes = {
        grey,
        truth: truthBits,
        mask: cutSlice(view.mask, shownCase, slice),
        uncertainty: cutSlice(view.uncertainty, shownCase, slice),
        columns: shownCase.columns,
        region: Number(regionSelect.value),
      };
      drawPlanes(view.canvas, planes);
    }
    const text = `slice ${shownCase.slice_numbers[slice]} of ${shownCase.depth}`;
    position.textContent = text;
    sliceSlider.setAttribute("aria-valuetext", text);
  }

  function drawPlanes(canvas, planes) {
    const picture = new ImageData(canvas.width, canvas.height);
    for (let pixel = 0; pixel < planes.grey.length; pixel++) {
      const [red, green, blue] = pixelColour(planes, pixel);
      picture.data.set([red, green, blue, 255], 4 * pixel);
    }
    canvas.getContext("2d").putImageData(picture, 0, 0);
  }

  // The image, then masks or errors, then uncertainty, then the outline of the truth on top.
  function pixelColour(planes, pixel) {
    if (showTruth.checked && isOutline(planes.truth, pixel, planes.columns)) {
      return colours.truth;
    }
    const grey = planes.grey[pixel];
    let colour = [grey, grey, grey];
    if (planes.mask && showErrors.checked) {
      colour = paintError(colour, planes.mask[pixel], planes.truth[pixel], planes.region);
    } else if (planes.mask && showMasks.checked) {
      colour = paintMask(colour, planes.mask[pixel]);
    }
    if (planes.uncertainty && showUncertainty.checked) {
      colour = paintUncertainty(colour, planes.uncertainty[pixel]);
    }
    return colour;
  }

  function blend(below, above, opacity) {
    return below.map((value, channel) => value * (1 - opacity) + above[channel] * opacity);
  }

  // Bit k of a mask is set in region k. The last region is shown.
  function paintMask(colour, bits) {
    if (!bits) {
      return colour;
    }
    const region = 31 - Math.clz32(bits);
    return blend(colour, regionColours[region] || regionColours[0], MASK_OPACITY);
  }

  function paintError(colour, maskBits, truthBits, region) {
    const predicted = (maskBits >> region) & 1;
    const isTrue = (truthBits >> region) & 1;
    if (predicted && isTrue) {
      return blend(colour, colours.true_positive, ERROR_OPACITY);
    }
    if (predicted) {
      return blend(colour, colours.false_positive, ERROR_OPACITY);
    }
    if (isTrue) {
      return blend(colour, colours.false_negative, ERROR_OPACITY);
    }
    return colour;
  }

  // From faint orange to nearly opaque white.
  function paintUncertainty(colour, level) {
    if (!level) {
      return colour;
    }
    const share = level / data.uncertainty_levels;
    return blend(colour, [255, 90 + 150 * share, 255 * share], 0.25 + 0.7 * share);
  }

  // Whether a pixel belongs to a region and one of its four neighbours to fewer regions.
  function isOutline(truth, pixel, columns) {
    if (!truth[pixel]) {
      return false;
    }
    const neighbours = [pixel - 1, pixel + 1, pixel - columns, pixel + columns];
    return neighbours.some((neighbour) => truth[neighbour] < truth[pixel]);
  }

  function changeCase(step) {
    const index = Number(caseSelect.value);
    const next = clamp(index + step, 0, data.cases.length - 1);
    if (next !== index) {
      caseSelect.value = next;
      openCase(next);
    }
  }

  function changeSlice(step) {
    sliceSlider.value = clamp(Number(sliceSlider.value) + step, 0, Number(sliceSlider.max));
    draw();
  }

  function toggle(checkbox) {
    checkbox.checked = !checkbox.checked;
    draw();
  }

  const keyActions = {
    ArrowLeft: () => changeSlice(-1),
    ArrowRight: () => changeSlice(1),
    ArrowUp: () => changeCase(-1),
    ArrowDown: () => changeCase(1),
    t: () => toggle(showTruth),
    m: () => toggle(showMasks),
    e: () => toggle(showErrors),
    u: () => toggle(showUncertainty),
  };

  function handleKey(event) {
    const action = keyActions[event.key];
    const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
    if (!action || hasModifier || event.target.tagName === "SELECT") {
      return;
    }
    event.preventDefault();
    action();
  }

  function addOptions(select, items) {
    items.forEach((item, index) => {
      const option = document.createElement("option");
      option.textContent = item.name;
      option.value = index;
      select.append(option);
    });
  }

  addOptions(caseSelect, data.cases);
  addOptions(regionSelect, data.regions);
  for (const key of document.querySelectorAll(".key")) {
    key.style.background = data.colours[key.dataset.colour];
  }
  for (const checkbox of [showTruth, showMasks, showErrors, showUncertainty]) {
    checkbox.addEventListener("change", draw);
  }
  sliceSlider.addEventListener("input", draw);
  regionSelect.addEventListener("change", draw);
  caseSelect.addEventListener("change", () => openCase(Number(caseSelect.value)));
  viewer.addEventListener("keydown", handleKey);
  viewer.hidden = false;
  openCase(0);
})();
