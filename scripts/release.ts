import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Checks that a tag may be released, and prints the entry of CHANGELOG.md for its notes: `node scripts/release.ts v1.2.3 [FOLDER]`.
 * Ends with exit code 1 and what is wrong: the tag is not the version of package.json, there is no entry of that version at the top,
 * or a page tells to install another name or version.
 */
const [tag = "", folder = join(import.meta.dirname, "..")] = process.argv.slice(2);

const read = (path: string): string => readFileSync(join(folder, path), "utf8");
const { name, version } = JSON.parse(read("package.json")) as {
  readonly name: string;
  readonly version: string;
};
const [, latest, entry = ""] = /^## (\S+)\n([^]*?)(?=^## |(?![^]))/m.exec(read("CHANGELOG.md")) ?? [];
const problems = [
  ...(tag === `v${version}` ? [] : [`the tag is ${tag}, and package.json has the version ${version}`]),
  ...(latest === version ? [] : [`the first entry of CHANGELOG.md is ${latest}, not ${version}`]),
  ...(entry.trim() === "" ? [`the entry ${latest} of CHANGELOG.md is empty`] : []),
  ...["README.md", ...globSync("docs/*.md", { cwd: folder }).toSorted()].flatMap((page) => installsIn(page)),
];

if (problems.length > 0) {
  for (const problem of problems) console.error(problem);
  process.exitCode = 1;
} else console.log(entry.trim());

/** The places of a page that install this package by another name or version. */
function installsIn(page: string): string[] {
  const archive = `${name.replace(/^@/, "").replace("/", "-")}-${version}.tgz`;
  const allowed = new RegExp(`(?:^|/)${escaped(archive)}$|^${escaped(name)}(?:@${escaped(version)})?$`);
  return read(page)
    .split("\n")
    .flatMap((line, index) => {
      const [, packages = ""] = /\bnpm (?:install|i)\b((?: [^`\s]+)*)/.exec(line) ?? [];
      return packages
        .split(" ")
        .filter((word) => word.includes("mcpvals") && !word.startsWith("-") && !allowed.test(word))
        .map((word) => `${page}:${index + 1} installs ${word}; the package is ${name}, ${version}`);
    });
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\/]/g, String.raw`\$&`);
}
