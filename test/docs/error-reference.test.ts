import { describe, expect, it } from "vitest";
import { errorCatalogue, errorKinds } from "../../src/base/catalogue.ts";
import { errorReference } from "../../scripts/error-reference.ts";

const page = errorReference();

describe("the page of all errors", () => {
  it("has every code once, under its kind, with what to do", () => {
    const found = page
      .split("\n## ")
      .slice(1)
      .flatMap((section) => {
        const [kind = ""] = section.split("\n");
        return [...section.matchAll(/^\| `(.+?)` \| .+ \| .+ \|$/gm)].map((row) => [row[1], kind]);
      });
    expect(found.toSorted()).toEqual(Object.entries(errorKinds).toSorted());
    expect(found).toHaveLength(Object.keys(errorCatalogue).length);
  });

  it("says what a code means as the catalogue does", () => {
    const { title, help } = errorCatalogue["config/unset-variable"];
    expect(page).toContain(`| \`config/unset-variable\` | ${title} | ${help} |`);
  });
});
