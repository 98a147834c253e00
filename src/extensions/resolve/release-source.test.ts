import { expect, test } from "vitest";
import { isPartialVersion, newestTag, tagsOf } from "./release-source.ts";

const tags = ["v1.2.9", "1.2.10", "v1.10.0", "v2.0.0-rc.1", "v1", "nightly", "v10.0.0", "v0.1.0"];

test.each([
  [undefined, "v10.0.0"],
  ["v1", "v1.10.0"],
  ["1", "v1.10.0"],
  ["v1.2", "1.2.10"],
  ["v2", undefined],
  ["v0", "v0.1.0"],
  ["v3.1", undefined],
])("the newest of %s is %s", (begin, expected) => {
  expect(newestTag(tags, begin)).toBe(expected);
  expect(newestTag(tags.toReversed(), begin)).toBe(expected);
});

test("what is a part of a version, and what tags a version can have", () => {
  expect(["v1", "1", "v1.2", "1.2.3", "latest", "v1-beta"].map(isPartialVersion)).toEqual([
    true,
    true,
    true,
    false,
    false,
    false,
  ]);
  expect(["v1.2.3", "1.2.3", "nightly", "v1"].map(tagsOf)).toEqual([
    ["v1.2.3", "1.2.3"],
    ["1.2.3", "v1.2.3"],
    ["nightly"],
    ["v1"],
  ]);
});
