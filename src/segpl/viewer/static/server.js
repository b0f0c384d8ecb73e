// What the page asks the server for. All addresses are below the page's own, which has the token.

/** The JSON at an address; an Error with the server's sentence if there is none. */
export async function getJson(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(await complaint(response));
  return response.json();
}

export async function postJson(path, content) {
  return post(path, "application/json", JSON.stringify(content));
}

/** Send the voxels of a mask, one byte each, packed by gzip. */
export async function postVoxels(path, voxels) {
  const packed = new Blob([voxels]).stream().pipeThrough(new CompressionStream("gzip"));
  const body = await new Response(packed).arrayBuffer();
  return post(path, "application/octet-stream", body);
}

async function post(path, type, body) {
  const response = await fetch(path, { method: "POST", headers: { "Content-Type": type }, body });
  if (!response.ok) throw new Error(await complaint(response));
  return response.json();
}

/** The bytes at an address; `onProgress` gets the share that has arrived, from 0 to 1. */
export async function getBytes(path, signal, onProgress = () => {}) {
  const response = await fetch(path, { signal });
  if (!response.ok) throw new Error(await complaint(response));
  const total = Number(response.headers.get("Content-Length"));
  if (!total) return response.arrayBuffer();
  const bytes = new Uint8Array(total);
  const reader = response.body.getReader();
  let received = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return bytes.buffer;
    bytes.set(value, received);
    received += value.length;
    onProgress(received / total);
  }
}

async function complaint(response) {
  try {
    return (await response.json()).error;
  } catch {
    return `The server answered ${response.status}.`;
  }
}
