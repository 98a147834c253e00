import { isInside } from "./is-inside.ts";
import type { Mount } from "./mounts.ts";

/**
 * Puts mounts in the order in which they can be made, outer ones first, and leaves out what the one around them has
 * already. What may be written wins over what may be read at the same path. What is in what may be written is left
 * out too: a program that ran there before could have put a link to anything in its place.
 */
export function orderMounts(mounts: readonly Mount[]): readonly Mount[] {
  const sorted = [...mounts].sort((a, b) => depth(a.at) - depth(b.at) || rank(a) - rank(b));
  const placed: Mount[] = [];
  for (const mount of sorted) {
    const one = fitInto(placed, mount);
    if (one !== undefined) placed.push(one);
  }
  return placed;
}

/** The innermost of some mounts that has a path; undefined when none has it. */
export function mountAround(mounts: readonly Mount[], path: string): Mount | undefined {
  return mounts
    .filter(({ at }) => isInside(path, at))
    .reduce<Mount | undefined>(
      (inner, one) => (inner && depth(inner.at) > depth(one.at) ? inner : one),
      undefined,
    );
}

function fitInto(placed: readonly Mount[], mount: Mount): Mount | undefined {
  const around = mountAround(placed, mount.at);
  switch (around?.kind) {
    case undefined:
      return mount.kind === "folder" ? undefined : mount;
    case "write":
      return undefined;
    case "read":
    case "link":
      return isOver(around, mount) ? mount : undefined;
    case "proc":
    case "devices":
      return mount.kind === "memory" && mount.at !== around.at ? mount : undefined;
    case "memory":
    case "folder":
      return fitIntoMemory(around, mount);
  }
}

/** In what is only read nothing can be made that is not there; what the system itself has at the top is there. */
function isOver(around: Mount, mount: Mount): boolean {
  if (mount.kind === "memory") return mount.at !== around.at && depth(mount.at) === 1;
  return mount.kind !== "read" && mount.kind !== "link" && mount.kind !== "folder";
}

/** One file system in memory is enough: another one in it is only a folder. */
function fitIntoMemory(around: Mount, mount: Mount): Mount | undefined {
  if (mount.at === around.at) return mount.kind === "write" || mount.kind === "read" ? mount : undefined;
  return mount.kind === "memory" ? { kind: "folder", at: mount.at } : mount;
}

function depth(path: string): number {
  return path.split("/").filter((part) => part !== "").length;
}

const ranks = ["proc", "devices", "write", "read", "link", "memory", "folder"];

function rank({ kind }: Mount): number {
  return ranks.indexOf(kind);
}
