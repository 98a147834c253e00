import { expect, it } from "vitest";
import { xmlAttributes, xmlText } from "../junit.ts";

it("escapes markup", () => {
  expect(xmlText('a < b && c > d ]]> "q"')).toBe('a &lt; b &amp;&amp; c &gt; d ]]&gt; "q"');
});

it("leaves out what XML 1.0 cannot carry", () => {
  expect(xmlText("a\u0000b\u001b[0m\ud800c\uffff\tline\n🎉")).toBe("ab[0mc\tline\n🎉");
});

it("keeps line breaks and tabs of attributes, and drops absent ones", () => {
  expect(xmlAttributes({ name: 'a "b"\n\tc', skipped: undefined, tests: 3 })).toBe(
    ' name="a &quot;b&quot;&#10;&#9;c" tests="3"',
  );
});
