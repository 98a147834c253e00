import { expect, it } from "vitest";
import { base64Parts } from "./base64.ts";

const bytes = Uint8Array.from({ length: 300 }, (_, index) => (index * 7919) % 251);
const data = Buffer.from(bytes).toString("base64");
const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, ...bytes]).toString("base64");

const found = (text: string) =>
  base64Parts(text).map(({ from, to, ...rest }) => ({ text: text.slice(from, to), ...rest }));

it("finds base64 with its size, and with its type where that can be told", () => {
  const json = JSON.stringify({ data, more: [png], url: `data:image/svg+xml;charset=utf-8;base64,${data}` });
  expect(found(json)).toEqual([
    { text: data, bytes: 300 },
    { text: png, bytes: 308, mimeType: "image/png" },
    { text: data, bytes: 300, mimeType: "image/svg+xml" },
  ]);
  const urlSafe = Buffer.from(bytes).toString("base64url");
  expect(found(`token ${urlSafe}.`)).toEqual([{ text: urlSafe, bytes: 300 }]);
});

it("finds all of base64 in a long line", () => {
  for (const length of [6143, 6144, 6150, 6159, 100_000]) {
    const long = Buffer.from(Uint8Array.from({ length }, (_, index) => (index * 7919) % 251)).toString(
      "base64",
    );
    expect(found(`"${long}"`)).toEqual([{ text: long, bytes: length }]);
  }
});

it.each([
  ["text", (lines: string) => `Here:\n${lines}\nThat was it.`, "\n"],
  ["JSON", (lines: string) => JSON.stringify({ lines: lines.replaceAll("\n", "\r\n") }), String.raw`\r\n`],
])("finds base64 of several lines in %s", (_, write, lineEnd) => {
  const lines = (data.match(/.{1,76}/g) ?? []).join("\n");
  const [part, ...others] = found(write(lines));
  expect(others).toEqual([]);
  expect(part?.bytes).toBe(300);
  expect(part?.text.trimEnd().split(lineEnd).join("")).toBe(data);
});

it.each([
  ["words", "all work and no play ".repeat(50)],
  ["a hash", "0123456789abcdef".repeat(32)],
  ["a line of one letter", "A".repeat(5000)],
  ["short base64", data.slice(0, 150)],
])("finds none in %s", (_, text) => {
  expect(base64Parts(text)).toEqual([]);
});

it("reads any text in linear time", () => {
  for (const text of [
    "A1b".repeat(2_000_000),
    `${"A1b/".repeat(10)}\\`.repeat(100_000),
    "aB1\n".repeat(1_000_000),
  ])
    expect(base64Parts(text).length).toBeLessThan(2);
});
