import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { docPages } from "../../docs/.vitepress/config.ts";
import { root } from "../support/cli.ts";

// `npm run docs` makes the site; it throws for a page without a place in the sidebar, as `docPages` does.
it("the sidebar of the site has every page of docs once, by its title", () => {
  const items = docPages().flatMap((group) => group.items);
  const links = items.map(({ link }) => link);
  expect(new Set(links).size).toBe(links.length);
  expect(links.filter((link) => link !== "/" && !existsSync(join(root, `${link}.md`)))).toEqual([]);
  expect(items).toContainEqual({ text: "Portable tasks", link: "/docs/tasks" });
  expect(items.filter(({ text }) => text.endsWith(".md"))).toEqual([]);
});
