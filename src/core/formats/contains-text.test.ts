import { expect, it } from "vitest";
import { containsText } from "./contains-text.ts";

it.each([
  ["The sum is FIVE.", "the sum is five"],
  ["using [secret:API_KEY] now", "[secret:API_KEY]"],
  ["using [secret:API_KEY] now", "USING [secret:API_KEY] NOW"],
  ["a [***] b", "[***]"],
  ["the secret key", "secret"],
  ["a list [secret: yes", "secret"],
])("%j contains %j", (text, wanted) => {
  expect(containsText(text, wanted)).toBe(true);
});

it.each([
  ["using [secret:API_KEY] now", "secret"],
  ["using [secret:API_KEY] now", "api_key"],
  ["using [secret:API_KEY] now", "]"],
  ["using [secret:API_KEY 2] now", "[secret:API_KEY]"],
  ["using [secret:KEY] now", "[secret:key]"],
  ["a [***] b", "*"],
  ["nothing", "[secret:key]"],
])("%j does not contain %j", (text, wanted) => {
  expect(containsText(text, wanted)).toBe(false);
});
