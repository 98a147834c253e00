import { expect, test } from "vitest";
import { fetchSource } from "../../../src/extensions/resolve/releases.ts";
import { startReleaseMirror } from "../../support/release-mirror.ts";
import { refusal } from "./resolving.ts";

test.each([
  ["nothing at all", false],
  ["the beginning only", true],
])("a server that sends %s is given up after a second try", async (_, begins) => {
  await using mirror = await startReleaseMirror();
  mirror.interfere = (_request, response) => {
    if (begins) response.writeHead(200).write("beginning");
    return true;
  };
  const options = {
    base: new URL(mirror.url),
    signal: new AbortController().signal,
    accept: "*/*",
    silenceMs: 1000,
  };
  const read = async (body: AsyncIterable<Uint8Array>): Promise<number> => {
    let bytes = 0;
    for await (const chunk of body) bytes += chunk.length;
    return bytes;
  };
  const refused = await refusal(fetchSource(`${mirror.url}/x?token=1`, options, read));
  expect(refused.code).toBe("extension/unreachable");
  expect(refused.text).toContain(`${mirror.url}/x could not be fetched: nothing came for 1000 ms`);
  expect(mirror.requests).toEqual(["/x?token=1", "/x?token=1"]);
});

test("a server that sends a little again and again is given up too", async () => {
  await using mirror = await startReleaseMirror();
  mirror.interfere = (_request, response) => {
    const drip = setInterval(() => response.write("x"), 20);
    response.on("close", () => clearInterval(drip));
    return true;
  };
  const { signal } = new AbortController();
  const options = { base: new URL(mirror.url), signal, accept: "*/*", mostMs: 500 };
  const read = async (body: AsyncIterable<Uint8Array>): Promise<void> => {
    for await (const chunk of body) expect(chunk.length).toBeGreaterThan(0);
  };
  const refused = await refusal(fetchSource(`${mirror.url}/x`, options, read));
  expect(refused.code).toBe("extension/unreachable");
  expect(refused.text).toContain("/x could not be fetched: it took more than 0.5 seconds");
  expect(mirror.requests).toEqual(["/x"]);
});
