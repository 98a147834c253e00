import { expect, it } from "vitest";
import { maskSecrets } from "./secret-names.ts";

it.each([
  ['  "apiKey": "sk-123",', '  "apiKey": "******",'],
  ["  apiKey: sk-123 # note", "  apiKey: ****** * ****"],
  ["TOKEN='a b'", "TOKEN='* *'"],
  ['{"password":"a\\"b", "x": 1}', '{"password":"**"*", "x": 1}'],
  ['  "openaiKey": "unclosed', '  "openaiKey": "********'],
  ["  token: ${GITHUB_TOKEN}", "  token: ${GITHUB_TOKEN}"],
  ["  authorization: Bearer-${X}-tail", "  authorization: *******${X}*****"],
  ["  name: get_token", "  name: get_token"],
  ['  "call": "token",', '  "call": "token",'],
  ["  command: node", "  command: node"],
  ["  DB_URL: postgres://me:hunter2@h/db", "  DB_URL: postgres://me:*******@h/db"],
  ["  url: http://me:${PASSWORD}@h/", "  url: http://me:${PASSWORD}@h/"],
  ["  Authorization: Bearer abc def", "  Authorization: ****** *** ***"],
])("masks %j as %j", (line, masked) => {
  expect(maskSecrets(line)).toBe(masked);
  expect(masked).toHaveLength(line.length);
});

it("masks given values wherever they stand, the longer ones first", () => {
  expect(maskSecrets("url: http://u:hunter2@h/?x=hunter", ["hunter", "hunter2"])).toBe(
    "url: http://u:*******@h/?x=******",
  );
});
