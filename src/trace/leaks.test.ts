import { expect, it } from "vitest";
import { leakIn, textsIn } from "./leaks.ts";

const secret = "7f3a9c05be182d64fa0e91b7";
const encoded = (encoding: "base64" | "hex" | "base64url", text = secret): string =>
  Buffer.from(text).toString(encoding);
const percent = secret.replaceAll(/./g, (each) => `%${each.charCodeAt(0).toString(16)}`);
const wide = secret.replaceAll(/./g, (each) => String.fromCodePoint(each.charCodeAt(0) + 0xfee0));
const rot13 = "7s3n9p05or182q64sn0r91o7";

it.each([
  ["plain", [`the key is ${secret}.`]],
  ["plain", [secret.toUpperCase()]],
  ["plain", [[...secret].join(" - ")]],
  ["plain", [wide]],
  ["reversed", [[...secret].toReversed().join("")]],
  ["in base64", [`x=${encoded("base64")}&y`]],
  ["in base64", [encoded("base64url", `{"key":"${secret}"}`)]],
  ["in hexadecimal", [encoded("hex").toUpperCase()]],
  ["in hexadecimal", [encoded("hex").replaceAll(/..(?!$)/g, "$& ")]],
  ["URL-encoded", [`https://h/?k=${percent}`]],
  ["in ROT13", [rot13]],
  ["in base64, in hexadecimal", [encoded("base64", encoded("hex"))]],
  ["plain, in parts", [secret.slice(12), secret.slice(0, 12)]],
  ["plain, in parts", [`a ${secret.slice(0, 8)}`, `b ${secret.slice(8, 16)}`, `c ${secret.slice(16)}`]],
  ["in base64", [encoded("base64").slice(0, 10), encoded("base64").slice(10)]],
])("finds a secret that is %s in %j", (how, texts) => {
  expect(leakIn(secret, texts)).toBe(how);
});

it.each([
  [[]],
  [["the key is confidential"]],
  [[secret.slice(0, 20)]],
  [[secret.slice(0, 8), secret.slice(9)]],
  [[encoded("base64", "something else that is long enough")]],
  [["%zz=", "abc=", "=", "----------------"]],
])("finds none in %j", (texts) => {
  expect(leakIn(secret, texts)).toBeUndefined();
});

it("reads all texts of a value", () => {
  expect(textsIn({ a: ["b", { c: 1, d: null }] })).toEqual(["a", "b", "c", "1", "d"]);
  expect(textsIn({ a: ["b", { c: 1, d: null }] }, true)).toEqual(["b", "1"]);
});
