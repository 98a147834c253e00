import { expect, it } from "vitest";
import { settingsExpander } from "./prepare-extensions.ts";

it("replaces variables that are set, and nothing else", () => {
  const expander = settingsExpander({ config: { url: "{env.HOST}:1" }, env: { X: "a {b}" } }, { HOST: "h" });
  expect(expander?.text("{env.HOST}:1 a {b}")).toBe("h:1 a {b}");
});

it.each([["{workspace}/db"], ["{env.UNSET}"], ["{random.port}"]])("leaves %s to the trial", (text) => {
  expect(settingsExpander({ config: { list: [{ text }] }, env: {} }, { HOST: "h" })).toBeUndefined();
  expect(settingsExpander({ config: {}, env: { text } }, { HOST: "h" })).toBeUndefined();
});
