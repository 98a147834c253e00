import type { CalledKind, CapabilityProfile, ProfilePart, Touched } from "../model/check.ts";
import type { CheckView, ProbeView } from "./check-view.ts";
import { type Access, isStart, ordinary, placeOf, stableTarget, touchedIn } from "./touched.ts";

/**
 * What the server touched in ordinary probes, in the order of their names; undefined: it was not confined. `watched`: what would have been
 * seen had it been watched so.
 */
export function profileOf(view: CheckView, watched = view.spec.watched): CapabilityProfile | undefined {
  if (watched === undefined || view.spec.confined !== true) return undefined;
  const touchedBy = (probes: readonly ProbeView[]): Touched => {
    const all = probes
      .flatMap((probe) => touchedIn(view, probe))
      .filter(({ by }) => watched === "all" || by === "comparison");
    const of = (kind: keyof Touched): string[] =>
      [
        ...new Set(all.flatMap((each) => (profileKinds[each.access] === kind ? targetInProfile(each) : []))),
      ].toSorted();
    return { read: of("read"), write: of("write"), run: of("run"), connect: of("connect") };
  };
  const start = touchedBy(view.probes.filter(isStart));
  const touchedByEach = (kind: CalledKind): Readonly<Record<string, Touched>> => {
    const probes = ordinary(view).filter((probe) => placeOf(probe).place?.[kind] !== undefined);
    return Object.fromEntries(
      [...Map.groupBy(probes, (probe) => placeOf(probe).place?.[kind] ?? "")]
        .map(([name, own]) => [name, touchedBy(own)] as const)
        .toSorted(([a], [b]) => (a < b ? -1 : 1)),
    );
  };
  const called = {
    tools: touchedByEach("tool"),
    prompts: touchedByEach("prompt"),
    resources: touchedByEach("resource"),
  };
  const all = [start, ...Object.values(called).flatMap((each) => Object.values(each))];
  const paths = (kind: "read" | "write"): string[] =>
    [...new Set(all.flatMap((each) => each[kind]))]
      .filter((path) => !path.startsWith("{"))
      .map((path) => (path.includes("*") ? path.slice(0, path.lastIndexOf("/")) : path))
      .toSorted();
  const write = paths("write");
  const sandbox = {
    kind: "process",
    network: all.some(({ connect }) => connect.length > 0) ? (["host"] as const) : [],
    read: paths("read").filter((path) => !write.includes(path)),
    write,
  } as const;
  return { watched, start, ...called, sandbox };
}

/** An access that is in a part of a profile. */
export function witnessIn(
  view: CheckView,
  { kind: of, name }: Pick<ProfilePart, "kind" | "name">,
  kind: keyof Touched,
  target: string,
): Access | undefined {
  const probes =
    of === undefined
      ? view.probes.filter(isStart)
      : ordinary(view).filter((probe) => placeOf(probe).place?.[of] === name);
  return probes
    .flatMap((probe) => touchedIn(view, probe))
    .find((each) => profileKinds[each.access] === kind && targetInProfile(each) === target);
}

const profileKinds: Readonly<Record<Access["access"], keyof Touched>> = {
  read: "read",
  write: "write",
  delete: "write",
  run: "run",
  connect: "connect",
  resolve: "connect",
};

/** In a folder that it was given the profile does not tell files apart: they are the user's. */
function targetInProfile(access: Access): string {
  return access.folder ?? stableTarget(access);
}
