// The page: which scan is open, where its mask comes from, and what the reader decides.

import { installKeys } from "./keys.js";
import { neighbour, nextToReview, showList } from "./list.js";
import { paintMask, toFileOrder } from "./mask.js";
import { RegionRows } from "./regions.js";
import { Scene } from "./scene.js";
import { getBytes, getJson, postJson, postVoxels } from "./server.js";

const POLL = 400; // milliseconds between two questions whether a prediction is done
const NARROW = 700; // pixels below which one plane is shown, as on a telephone

const find = (id) => document.getElementById(id);
const scene = new Scene(find("canvas"));
let list = null; // the answer of api/list
let rows = null; // RegionRows
let scan = null; // everything about the scan on the screen

/** A scan as it is opened: nothing is known yet but its number. */
function newScan(number) {
  return {
    number,
    details: null,
    maps: null, // per cent of each region, in the order in which NiiVue draws
    mapBytes: [], // the same as files, for the overlay
    curves: null,
    labelVoxels: null,
    labelBytes: null,
    isWhole: false, // false while only the preview of a large scan is there
    source: "none", // of the mask: model, label or none
    isDrawing: false,
    isChanged: false, // whether anything was drawn that is not saved
    leave: new AbortController(), // ends the downloads when another scan is opened
  };
}

// Opening a scan

async function openScan(number) {
  if (scan?.isChanged && !confirm("Discard what you have drawn?")) return;
  if (scan?.isDrawing) scene.stopDrawing();
  scan?.leave.abort();
  const opened = newScan(number);
  scan = opened;
  scene.clear();
  if (innerWidth < NARROW) find("scans").open = false;
  showEverything();
  try {
    await load(opened);
  } catch (error) {
    if (error.name !== "AbortError") tell(error.message, true);
  }
}

async function load(opened) {
  tell("Reading the scan…");
  opened.details = await getJson(`api/scans/${opened.number}`);
  if (opened !== scan) return;
  scene.setLarge(opened.details.isLarge);
  showEverything();
  if (list.hasModel) await postJson(`api/scans/${opened.number}/prediction`, {});
  await loadImage(opened, false);
  if (opened !== scan) return;
  if (opened.details.hasLabel) await loadLabel(opened);
  if (opened !== scan) return;
  if (list.hasModel) await loadPrediction(opened);
  if (opened === scan) scanIsReady(opened);
}

/** Show the chosen channel; of a large scan a preview comes first. */
async function loadImage(opened, keepWindow) {
  const channel = find("channel").value;
  const base = `scans/${opened.number}`;
  const { signal } = opened.leave;
  let keep = keepWindow;
  if (opened.details.isLarge && !opened.isWhole) {
    const preview = await getBytes(`${base}/preview/${channel}`, signal);
    if (opened !== scan) return;
    await scene.showImage(preview, keep);
    showWindow();
    showSlice();
    document.body.dataset.firstPlane = "shown";
    keep = true;
  }
  const bytes = await getBytes(`${base}/channel/${channel}`, signal, (share) =>
    tell(`Reading the scan: ${Math.round(100 * share)} %`, false, share),
  );
  if (opened !== scan) return;
  tell("Drawing the scan…");
  await scene.showImage(bytes, keep);
  opened.isWhole = true;
  showWindow();
  showSlice();
}

async function loadLabel(opened) {
  opened.labelBytes = await getBytes(`scans/${opened.number}/label`, opened.leave.signal);
  opened.labelVoxels = await scene.sortedVoxels(opened.labelBytes);
}

async function loadPrediction(opened) {
  const prediction = await waitForPrediction(opened);
  if (!prediction || opened !== scan) return;
  const maps = [];
  for (let index = 0; index < list.regions.length; index++) {
    const path = `scans/${opened.number}/region/${index}`;
    const bytes = await getBytes(path, opened.leave.signal);
    opened.mapBytes.push(bytes);
    maps.push(await scene.sortedVoxels(bytes));
  }
  if (opened !== scan) return;
  opened.maps = maps;
  opened.curves = prediction.curves;
  rows.setThresholds(opened.curves.map((curve) => curve.start));
}

/** The prediction when it is done; null if it failed, and the reader is told why. */
async function waitForPrediction(opened) {
  for (;;) {
    const prediction = await getJson(`api/scans/${opened.number}/prediction`);
    if (opened !== scan || prediction.status === "done") return prediction;
    if (prediction.status === "failed") {
      tell(prediction.error, true);
      return null;
    }
    const percent = Math.round(100 * prediction.progress);
    const isRunning = prediction.status === "running";
    const words = isRunning ? `Predicting the mask: ${percent} %` : "Another scan is predicted first…";
    tell(words, false, prediction.progress);
    await new Promise((resolve) => setTimeout(resolve, POLL));
  }
}

function scanIsReady(opened) {
  chooseSource(defaultSource(opened));
  find("show-label").checked = opened.details.hasLabel && opened.source === "model";
  showLabel();
  if (opened.source !== "none") scene.centreOnMask();
  if (!find("status").classList.contains("bad")) tell("");
  document.body.dataset.ready = opened.number;
  const next = nextToReview(list.scans, opened.number);
  if (list.hasModel && next) postJson(`api/scans/${next.number}/prediction`, {}).catch(() => {});
}

// The mask

/** A label that was reviewed, or that the data had, comes before the model's mask. */
function defaultSource(opened) {
  const { part, hasLabel } = opened.details;
  const prefersLabel = part === "labelled" || isReviewed(opened);
  if (hasLabel && (prefersLabel || !opened.maps)) return "label";
  return opened.maps ? "model" : "none";
}

function isReviewed(opened) {
  return ["accepted", "corrected"].includes(opened.details.decision);
}

function chooseSource(source) {
  scan.source = source;
  if (source === "label") scene.mask.set(scan.labelVoxels);
  else if (source === "model") paintMask(scan.maps, rows.thresholds, scene.mask);
  else scene.closeMask();
  if (source !== "none") scene.refreshMask();
  styleMask();
  showEverything();
}

function moveThreshold() {
  if (scan.source !== "model" || scan.isDrawing) return;
  paintMask(scan.maps, rows.thresholds, scene.mask);
  scene.refreshMask();
  showNumbers();
}

function styleMask() {
  if (!scan?.isWhole) return;
  const opacity = Number(find("opacity").value) / 100;
  scene.styleMask(find("show-mask").checked, find("contour").checked, opacity);
}

function showLabel() {
  const visible = find("show-label").checked && scan.labelBytes;
  scene.showLabel(visible ? scan.labelBytes : null, scan.labelVoxels);
}

function showOverlay() {
  const kind = find("overlay").value;
  const bytes = scan.mapBytes[Number(find("overlay-region").value)];
  const scales = {
    none: "",
    probability: "Purple: improbable. Yellow: certain.",
    uncertainty: "Bright: the model is unsure (entropy near 1 bit). Clear: it is certain.",
  };
  find("overlay-scale").textContent = scales[kind];
  find("overlay-scale").hidden = kind === "none";
  scene.showOverlay(kind === "none" ? null : bytes, kind);
}

// Reviewing

async function decide(decision) {
  const reviewed = scan;
  if (decision === "accepted" && !canAccept()) return;
  const thresholds = decision === "accepted" ? rows.thresholds : [];
  await send(() => postJson(`api/scans/${reviewed.number}/decision`, { decision, thresholds }), decision);
}

async function saveDrawing() {
  if (!scan.isDrawing) return;
  const { number } = scan;
  const { permRAS, hdr } = scene.image;
  const voxels = toFileOrder(scene.mask, permRAS, hdr.dims.slice(1, 4));
  const path = `api/scans/${number}/label`;
  await send(() => postVoxels(path, voxels), "corrected");
}

/** Write a review, then go on to the next scan. */
async function send(write, decision) {
  const reviewed = scan;
  tell("Saving…");
  try {
    await write();
  } catch (error) {
    tell(error.message, true);
    return;
  }
  reviewed.isChanged = false;
  stopDrawing();
  await refreshList();
  const words = `${reviewed.details.name}: ${decision}.`;
  const next = decision === "withdrawn" ? null : nextToReview(list.scans, reviewed.number);
  const outlook = next || decision === "withdrawn" ? "" : " No other scan waits for review.";
  await openScan(next ? next.number : reviewed.number);
  if (!isFailed()) tell(words + outlook);
}

function startDrawing() {
  if (!scan?.isWhole || scan.isDrawing || scan.details.part === "test") return;
  scan.isDrawing = true;
  find("show-mask").checked = true;
  styleMask();
  if (find("layout").value === "render") setLayout("axial");
  scene.startDrawing();
  chooseTool("pen");
  showEverything();
  tell("Draw in a plane. Save when the mask is right.");
  if (innerWidth < NARROW) find("review-box").scrollIntoView({ block: "end" });
}

function stopDrawing() {
  if (!scan?.isDrawing) return;
  scan.isDrawing = false;
  scan.isChanged = false;
  scene.stopDrawing();
  showEverything();
}

function discardDrawing() {
  if (!scan?.isDrawing) return;
  if (scan.isChanged && !confirm("Discard what you have drawn?")) return;
  stopDrawing();
  chooseSource(scan.source);
  tell("");
}

function chooseTool(tool) {
  for (const name of ["pen", "fill", "eraser"]) {
    find(name).setAttribute("aria-pressed", String(name === tool));
  }
  setPen();
}

function setPen() {
  const isErasing = find("eraser").getAttribute("aria-pressed") === "true";
  const isFilling = find("fill").getAttribute("aria-pressed") === "true";
  const size = Number(find("pen-size").value);
  find("pen-size-value").textContent = size;
  scene.setPen(isErasing ? 0 : Number(find("pen-region").value), isFilling, size);
}

function changePenSize(step) {
  find("pen-size").value = Number(find("pen-size").value) + step;
  setPen();
}

// What the page shows

function showEverything() {
  const details = scan.details;
  const isTest = details?.part === "test";
  find("name").textContent = details?.name ?? list.scans.find((item) => item.number === scan.number).name;
  showList(find("list"), list.scans, scan.number, openScan);
  find("label-row").hidden = !details?.hasLabel;
  find("source-row").hidden = !(scan.maps && scan.labelVoxels) || scan.isDrawing;
  find("source").value = scan.source;
  find("overlay-box").disabled = !scan.maps;
  rows.setEnabled(scan.source === "model" && !scan.isDrawing);
  find("decision").textContent = decisionText(details, isTest);
  find("decide").hidden = scan.isDrawing || isTest;
  find("tools").hidden = !scan.isDrawing;
  find("accept").hidden = !list.hasModel;
  find("accept").disabled = !canAccept();
  find("correct").disabled = !scan.isWhole || (list.hasModel && scan.source === "none" && !scan.maps && !isFailed());
  find("correct").firstChild.data = scan.source === "none" && !list.hasModel ? "Draw a mask " : "Correct ";
  find("reject").disabled = !details;
  find("withdraw").hidden = !details?.decision;
  showNumbers();
}

function isFailed() {
  return find("status").classList.contains("bad");
}

function canAccept() {
  return Boolean(scan?.maps) && scan.source === "model" && !scan.isDrawing && scan.details.part !== "test";
}

function decisionText(details, isTest) {
  if (!details) return "";
  if (isTest) return "A test case: its label stays as it is, because scores depend on it.";
  if (details.decision === "rejected") return "Rejected: trainings leave this scan out.";
  if (details.decision) return `This scan was ${details.decision}. The mask shown is its label.`;
  if (details.reason) return `Rank ${details.rank}: ${details.reason}.`;
  return "";
}

function showNumbers() {
  const mask = scan.isWhole && scan.source !== "none" ? scene.mask : null;
  const curves = scan.source === "model" && !scan.isDrawing ? scan.curves : null;
  const [x, y, z] = scan.details?.spacing ?? [1, 1, 1];
  rows.showNumbers(scan.isDrawing ? scene.mask : mask, curves, (x * y * z) / 1000);
}

function showSlice() {
  find("slice").max = scene.slices;
  find("slice").value = scene.slice + 1;
  find("slice-number").textContent = `${scene.slice + 1} of ${scene.slices}`;
  find("slice-row").hidden = find("layout").value === "render" || scene.slices < 2;
}

function showWindow() {
  const { cal_min: low, cal_max: high, global_min: least, global_max: most } = scene.image;
  const step = (most - least) / 500 || 1;
  setRange("level", least, most, step, (low + high) / 2);
  setRange("window", step, Math.max(most - least, step), step, high - low);
}

function setRange(id, min, max, step, value) {
  Object.assign(find(id), { min, max, step, value });
  find(`${id}-value`).textContent = Number(value.toPrecision(3));
}

function moveWindow() {
  const level = Number(find("level").value);
  const width = Number(find("window").value);
  scene.setWindow(level - width / 2, level + width / 2);
  showWindow();
}

function setLayout(name) {
  find("layout").value = name;
  scene.setLayout(name);
  showSlice();
}

/** A sentence below the canvas; a share from 0 to 1 shows a bar. */
function tell(sentence, isBad = false, share = null) {
  find("status").textContent = sentence;
  find("status").classList.toggle("bad", isBad);
  find("progress").hidden = share === null;
  if (share !== null) find("progress").value = share;
}

async function refreshList() {
  list = await getJson("api/list");
  document.title = `${list.title} – segpl view`;
  find("title").textContent = list.title;
  const labels = list.labels === 1 ? "1 label" : `${list.labels} labels`;
  find("counter").textContent = `${labels} to train on, ${list.reviewed} of them reviewed here`;
  find("order").hidden = !list.hasModel || list.isRanked;
  find("order").textContent = `In the order of their names. This command puts the most useful first: segpl rank ${list.runs}`;
}

function toggle(id) {
  if (find(id).closest("[hidden]")) return;
  find(id).click();
}

function toggleOverlay(kind) {
  if (!scan?.maps) return;
  find("overlay").value = find("overlay").value === kind ? "none" : kind;
  showOverlay();
}

function openNeighbour(step) {
  const other = neighbour(list.scans, scan.number, step);
  if (other) openScan(other.number);
}

function addOptions(select, names, first = 0) {
  names.forEach((name, index) => select.add(new Option(name, String(index + first))));
}

function listen() {
  const on = (id, event, action) => find(id).addEventListener(event, action);
  on("layout", "change", () => setLayout(find("layout").value));
  on("slice", "input", () => scene.setSlice(Number(find("slice").value) - 1));
  for (const id of ["show-mask", "contour", "opacity"]) on(id, "input", styleMask);
  on("show-label", "change", showLabel);
  on("source", "change", () => chooseSource(find("source").value));
  on("overlay", "change", showOverlay);
  on("overlay-region", "change", showOverlay);
  on("channel", "change", changeChannel);
  on("level", "input", moveWindow);
  on("window", "input", moveWindow);
  on("reset-window", "click", resetWindow);
  on("accept", "click", () => decide("accepted"));
  on("reject", "click", () => decide("rejected"));
  on("withdraw", "click", () => decide("withdrawn"));
  on("correct", "click", startDrawing);
  for (const tool of ["pen", "fill", "eraser"]) on(tool, "click", () => chooseTool(tool));
  on("pen-region", "change", setPen);
  on("pen-size", "input", setPen);
  on("undo", "click", () => scene.undo());
  on("save", "click", saveDrawing);
  on("cancel", "click", discardDrawing);
  on("help-button", "click", () => find("help").showModal());
  scene.onSlice = showSlice;
  scene.onWindow = showWindow;
  scene.onStroke = (action) => {
    if (!scan.isDrawing) return;
    scan.isChanged = scan.isChanged || action === "draw";
    showNumbers();
  };
  addEventListener("beforeunload", (event) => {
    if (scan?.isChanged) event.preventDefault();
  });
}

/** Another channel of the same scan: mask, label and overlay stay. */
async function changeChannel() {
  const opened = scan;
  const mask = opened.isWhole ? scene.mask.slice() : null;
  if (opened.isDrawing) stopDrawing();
  await loadImage(opened, false);
  if (opened !== scan) return;
  if (mask) {
    scene.mask.set(mask);
    scene.refreshMask();
    styleMask();
  }
  showLabel();
  showOverlay();
  tell("");
}

function resetWindow() {
  scene.resetWindow();
  showWindow();
}

function shortcuts() {
  const drawing = (action) => () => scan?.isDrawing && action();
  const looking = (action) => () => scan && !scan.isDrawing && action();
  return [
    [["ArrowUp"], "next slice", () => scene.moveSlices(1)],
    [["ArrowDown"], "previous slice", () => scene.moveSlices(-1)],
    [["n", "PageDown"], "next scan", () => openNeighbour(1)],
    [["N", "PageUp"], "previous scan", () => openNeighbour(-1)],
    [["m"], "show or hide the mask", () => toggle("show-mask")],
    [["o"], "contour or filled", () => toggle("contour")],
    [["t"], "show or hide the label of the data", () => toggle("show-label")],
    [["b"], "probability", () => toggleOverlay("probability")],
    [["u"], "uncertainty", () => toggleOverlay("uncertainty")],
    [["w"], "reset window and level", resetWindow],
    [["v"], "next layout", nextLayout],
    [["a"], "accept the mask", looking(() => canAccept() && decide("accepted"))],
    [["r"], "reject the scan", looking(() => scan.details?.part !== "test" && decide("rejected"))],
    [["c"], "correct the mask", looking(startDrawing)],
    [["p"], "pen", drawing(() => chooseTool("pen"))],
    [["f"], "pen that fills what it surrounds", drawing(() => chooseTool("fill"))],
    [["e"], "eraser", drawing(() => chooseTool("eraser"))],
    [["["], "thinner pen", drawing(() => changePenSize(-1))],
    [["]"], "thicker pen", drawing(() => changePenSize(1))],
    [["z"], "undo a stroke", drawing(() => scene.undo())],
    [["s"], "save what you have drawn as the label", drawing(saveDrawing)],
    [["Escape"], "discard what you have drawn", drawing(discardDrawing)],
    [["?"], "this help", () => find("help").showModal()],
  ];
}

function nextLayout() {
  const { options, selectedIndex } = find("layout");
  setLayout(options[(selectedIndex + 1) % options.length].value);
}

async function start() {
  await refreshList();
  const showRegions = () => scene.showRegions(rows.visible);
  rows = new RegionRows(find("regions"), list.regions, moveThreshold, showRegions);
  rows.hideThresholds(!list.hasModel);
  const names = list.regions.map((region) => region.name);
  addOptions(find("pen-region"), names, 1);
  addOptions(find("overlay-region"), names);
  addOptions(find("channel"), list.channels);
  find("channel-row").hidden = list.channels.length < 2;
  find("overlay-region-row").hidden = names.length < 2;
  find("overlay-box").hidden = !list.hasModel;
  await scene.start(names.length);
  if (innerWidth < NARROW) setLayout("axial");
  listen();
  installKeys(shortcuts(), find("keys").tBodies[0]);
  const first = nextToReview(list.scans, null) ?? list.scans[0];
  await openScan(first.number);
}

start().catch((error) => tell(error.message, true));
