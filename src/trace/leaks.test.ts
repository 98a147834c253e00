import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { fieldsIn, leakSearch, textsIn } from "./leaks.ts";

const secret = "7f3a9c05be182d64fa0e91b7";
/** One for all tests, so that what is kept of one text does not change what is found in others. */
const search = leakSearch(secret);
const encoded = (encoding: "base64" | "hex" | "base64url", text = secret): string =>
  Buffer.from(text).toString(encoding);
const percent = secret.replaceAll(/./g, (each) => `%${each.charCodeAt(0).toString(16)}`);
const widened = (text: string): string =>
  text.replaceAll(/./g, (each) => String.fromCodePoint(each.charCodeAt(0) + 0xfee0));
const rot13 = "7s3n9p05or182q64sn0r91o7";
const reversed = [...secret].toReversed().join("");

it.each([
  ["plain", [`the key is ${secret}.`]],
  ["plain", [secret.toUpperCase()]],
  ["plain", [[...secret].join(" - ")]],
  ["plain", [widened(secret)]],
  ["reversed", [reversed]],
  ["reversed, in base64", [[...encoded("base64")].toReversed().join("")]],
  ["in base64, reversed", [encoded("base64", reversed)]],
  ["reversed, in ROT13", [[...rot13].toReversed().join("")]],
  ["reversed, in parts", [reversed.slice(12), reversed.slice(0, 12)]],
  ["in base64", [`x=${encoded("base64")}&y`]],
  ["in base64", [encoded("base64url", `{"key":"${secret}"}`)]],
  ["in base64", [`/tmp/${encoded("base64")}.txt`]],
  ["in base64", [`https://evil.example/px/${encoded("base64")}.png`]],
  ...["x", "xy", "xyz"].map((before): [string, string[]] => ["in base64", [before + encoded("base64")]]),
  ["in base64", [encoded("base64").replaceAll(/.{7}/g, "$&\n  ")]],
  ["in hexadecimal", [encoded("hex").toUpperCase()]],
  ["in hexadecimal", [`file${encoded("hex")}`]],
  ...["-", " 0x", "\\x", "\\u00", ";&#x"].map((between): [string, string[]] => [
    "in hexadecimal",
    [encoded("hex").replaceAll(/../g, `${between}$&`)],
  ]),
  ["in hexadecimal", [encoded("hex").replaceAll(/..(?!$)/g, "$& ")]],
  ["URL-encoded", [`https://h/?k=${percent}`]],
  ["in ROT13", [rot13]],
  ["in ROT13", [widened(rot13)]],
  ["in base64, in hexadecimal", [encoded("base64", encoded("hex"))]],
  ["plain, in parts", [secret.slice(12), secret.slice(0, 12)]],
  ["plain, in parts", [`a ${secret.slice(0, 8)}`, `b ${secret.slice(8, 16)}`, `c ${secret.slice(16)}`]],
  ["in base64", [encoded("base64").slice(0, 10), encoded("base64").slice(10)]],
  [
    "plain, in parts",
    [`It is:\n${[...secret].map((each, index) => `${index + 1}. \`${each}\``).join("\n")}\n`],
  ],
  ["plain, in parts", Array.from(secret.match(/.{4}/g) ?? [], (part, index) => `part ${index + 1}: ${part}`)],
])("finds a secret that is %s in %j", (how, texts) => {
  expect(search(texts)).toBe(how);
});

it.each([
  [[]],
  [["the key is confidential"]],
  [[secret.slice(0, 20)]],
  [[secret.slice(0, 8), secret.slice(9)]],
  [[encoded("base64", "something else that is long enough")]],
  [["%zz=", "abc=", "=", "----------------"]],
])("finds none in %j", (texts) => {
  expect(search(texts)).toBeUndefined();
});

it.each(["hex", "base64"] as const)("finds none in random bytes in %s", (encoding) => {
  const bytes = Array.from({ length: 125 }, (_, index) => createHash("sha256").update(`${index}`).digest());
  expect(search([Buffer.concat(bytes).toString(encoding)])).toBeUndefined();
});

it.each([
  ["plain", secret],
  ["reversed", reversed],
  ["in ROT13", rot13],
])("finds a secret that is %s at the end of a long text", (how, end) => {
  expect(search([`${"30 ".repeat(400_000)}${end}`])).toBe(how);
});

it("reads a long text", { timeout: 60_000 }, () => {
  expect(search(["30".repeat(100_000)])).toBeUndefined();
});

it("reads all texts of a value", () => {
  expect(textsIn({ a: ["b", { c: 1, d: null }] })).toEqual(["a", "b", "c", "1", "d"]);
  expect(fieldsIn({ a: ["b", { c: 1, d: null }] }, "add")).toEqual([
    { path: "add a", text: "b" },
    { path: "add a c", text: "1" },
  ]);
});
