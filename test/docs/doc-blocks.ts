/** A fenced block of a Markdown page. */
export interface DocBlock {
  readonly language: string;
  /** What stands after the language: `file=NAME` gives `{ file: "NAME" }`. */
  readonly attributes: Readonly<Record<string, string>>;
  readonly text: string;
  /** Line of the opening fence, counting from 1. */
  readonly line: number;
}

/** Finds every fenced block of a page, in order. Throws for a block that is never closed. */
export function docBlocks(markdown: string): readonly DocBlock[] {
  const lines = markdown.split("\n");
  const blocks: DocBlock[] = [];
  for (let index = 0; index < lines.length; index += 1) {
    const [, fence, info = ""] = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(lines[index] ?? "") ?? [];
    if (fence === undefined) continue;
    const end = lines.findIndex((line, at) => at > index && line.trim() === fence);
    if (end === -1) throw new Error(`line ${index + 1}: a block that is never closed`);
    const [language = "", ...attributes] = info.trim().split(/\s+/);
    blocks.push({
      language,
      attributes: Object.fromEntries(attributes.map(readAttribute)),
      text: lines.slice(index + 1, end).join("\n") + "\n",
      line: index + 1,
    });
    index = end;
  }
  return blocks;
}

function readAttribute(text: string): readonly [string, string] {
  const [, name, value] = /^(\w+)=(.+)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new Error(`not NAME=VALUE: ${text}`);
  return [name, value];
}

/** The page without its fenced blocks; lines stay where they are. */
export function withoutBlocks(markdown: string): string {
  const lines = markdown.split("\n");
  for (const { line, text } of docBlocks(markdown)) {
    const height = text.split("\n").length + 1;
    lines.fill("", line - 1, line - 1 + height);
  }
  return lines.join("\n");
}

/** The targets of all links of a page, those in blocks and in code left out. */
export function docLinks(markdown: string): readonly string[] {
  const prose = withoutBlocks(markdown).replaceAll(/`[^`]*`/g, "");
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
}

/** The anchors that GitHub gives the headings of a page. */
export function docAnchors(markdown: string): ReadonlySet<string> {
  const headings = [...withoutBlocks(markdown).matchAll(/^#{1,6} (.*)$/gm)];
  return new Set(
    headings.map(([, title = ""]) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
        .trim()
        .replaceAll(" ", "-"),
    ),
  );
}
