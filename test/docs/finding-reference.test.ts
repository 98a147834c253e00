import { expect, it } from "vitest";
import { findingReference } from "../../scripts/finding-reference.ts";
import { findingRules } from "../../src/check/catalogue.ts";

const page = findingReference();

it("has every code once, in a table and with a section, and the two lead to each other", () => {
  const codes = Object.keys(findingRules).toSorted();
  const rows = [...page.matchAll(/^\| \[`(.+?)`\]\(#(.+?)\) \| \w+ \| .+ \|$/gm)];
  expect(rows.map(([, code]) => code).toSorted()).toEqual(codes);
  expect(rows.map(([, , anchor]) => anchor)).toEqual(rows.map(([, code]) => code?.replace("/", "")));
  expect([...page.matchAll(/^### (.+)$/gm)].map(([, code]) => code).toSorted()).toEqual(codes);
});

it("links the sources that are public issues", () => {
  expect(page).toContain("Source: [openai/codex#13768](https://github.com/openai/codex/issues/13768)");
  const sources = Object.values(findingRules).flatMap(
    ({ source }) => source.match(/[\w.-]+\/[\w.-]+#\d+/g) ?? [],
  );
  const missing = sources.filter((source) => !page.includes(`[${source}](https://github.com/`));
  expect(missing).toEqual([]);
});
