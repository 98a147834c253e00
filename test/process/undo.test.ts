import { execFileSync } from "node:child_process";
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { undo, undoScript, type UndoStep } from "../../src/process/watchdog.ts";

/** Files as text, folders with a slash, links as such. */
function contents(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).toSorted();
  return Object.fromEntries(
    names.map((name) => {
      const found = lstatSync(join(folder, name));
      if (found.isDirectory()) return [`${name}/`, ""];
      return [name, found.isSymbolicLink() ? "link" : readFileSync(join(folder, name), "utf8")];
    }),
  );
}

function folderWith(fill: (path: (name: string) => string) => void): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "undo $(x) 'y' ")));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  fill((name) => join(folder, name));
  return folder;
}

const ways: Readonly<Record<string, (steps: readonly UndoStep[]) => void>> = {
  "in this process": undo,
  "by a shell": (steps) => {
    execFileSync("/bin/sh", ["-c", `${undoScript(steps) ?? "exit 9"}; exit 0`], { stdio: "ignore" });
  },
};

describe.skipIf(process.platform === "win32").each(Object.entries(ways))(
  "changes taken back %s",
  (_, take) => {
    it("leave what was there before, in any number of tries", () => {
      const folder = folderWith((path) => {
        writeFileSync(path("kept"), "old");
        writeFileSync(path("file"), "new");
        mkdirSync(path("empty"));
        mkdirSync(path("full"));
        writeFileSync(path("full/x"), "x");
        symlinkSync("full", path("to folder"));
        symlinkSync("nowhere", path("aside"));
        writeFileSync(path("added"), "");
      });
      const at = (name: string): string => join(folder, name);
      const steps: readonly UndoStep[] = [
        { kind: "move-back", from: at("kept"), to: at("file") },
        { kind: "move-back", from: at("aside"), to: at("to folder") },
        { kind: "remove-file", path: at("added") },
        { kind: "remove-file", path: at("never/there") },
        { kind: "remove-folder", path: at("empty") },
        { kind: "remove-folder", path: at("never") },
      ];
      take(steps);
      take(steps);
      expect(contents(folder)).toEqual({ file: "old", "full/": "", "full/x": "x", "to folder": "link" });
    });

    it("leave folders that are in the way, and those with something in them", () => {
      const folder = folderWith((path) => {
        writeFileSync(path("kept"), "old");
        mkdirSync(path("file"));
        writeFileSync(path("file/x"), "x");
      });
      const before = contents(folder);
      const at = (name: string): string => join(folder, name);
      const steps: readonly UndoStep[] = [{ kind: "move-back", from: at("kept"), to: at("file") }];
      if (take === undo) expect(() => take(steps)).toThrow("EISDIR");
      else take(steps);
      if (take === undo) take([{ kind: "remove-folder", path: at("file") }]);
      expect(contents(folder)).toEqual(before);
    });
  },
);

it("cannot be told to a shell when a path has a line break", () => {
  expect(undoScript([{ kind: "remove-file", path: "/a\nb" }])).toBeUndefined();
});
