import { describe, expect, it } from "vitest";
import { containerArguments, containerEnvironment, type ContainerPlan } from "./container.ts";
import type { ManagedProcess } from "../process/spawn.ts";
import { type Mount, orderMounts } from "./mounts.ts";
import { confined } from "./sandbox.ts";
import { seatbeltProfile } from "./seatbelt.ts";

describe("containers", () => {
  const plan: ContainerPlan = {
    runtime: { engine: "docker", rootless: false, runArguments: ["--ulimit", "nofile=100:100"], user: "7:8" },
    spec: { kind: "docker", network: "none", read: [], write: [], memoryBytes: 2 ** 20, processes: 2 },
    image: "image",
    name: "name",
    command: "node",
    process: { args: ["main.js", "x y"], cwd: "/ws" },
    mounts: [
      { kind: "read", at: "/task", source: "/task" },
      { kind: "write", at: "/ws", source: "/odd,name" },
    ],
    environmentFile: "/env",
    passedVariables: ["LINES"],
  };

  it("confines everything that a container can be confined in", () => {
    expect(containerArguments(plan).join(" ")).toBe(
      "run --ulimit nofile=100:100 --rm --interactive --name name --init --pull never --network none --read-only " +
        "--cap-drop ALL --security-opt no-new-privileges --memory 1048576b --memory-swap 1048576b --shm-size 524288b " +
        "--pids-limit 32 --ulimit core=0:0 --tmpfs /tmp:rw,exec,nosuid,nodev,mode=1777,size=524288 --user 7:8 " +
        '--mount type=bind,source=/task,target=/task,readonly --mount type=bind,"source=/odd,name",target=/ws ' +
        "--env-file /env --env LINES --workdir /ws --entrypoint node image main.js x y",
    );
  });

  it.each([
    ["docker", "--user 0:0"],
    ["podman", "--userns=keep-id --user 7:8"],
  ] as const)("has our user with a rootless %s", (engine, expected) => {
    const args = containerArguments({ ...plan, runtime: { ...plan.runtime, engine, rootless: true } });
    expect(args.join(" ")).toContain(` ${expected} `);
  });

  it("leaves folders of this machine out of the environment, and passes what a file cannot have", () => {
    const env = { PATH: "/bin", TMPDIR: "/x", HOME: "/home/me", A: " b ", LINES: "1\n2" };
    expect(containerEnvironment(env, plan.mounts)).toEqual({
      file: "HOME=/tmp\nA= b \n",
      passed: { LINES: "1\n2" },
    });
    expect(containerEnvironment({ HOME: "/ws/home", TMPDIR: "/ws" }, plan.mounts).file).toBe(
      "HOME=/ws/home\nTMPDIR=/ws\n",
    );
  });
});

describe("mounts of bubblewrap", () => {
  const read = (at: string): Mount => ({ kind: "read", at, source: at });
  const write = (at: string): Mount => ({ kind: "write", at, source: at });
  const memory = (at: string): Mount => ({ kind: "memory", at, size: 4096 });

  const link: Mount = { kind: "link", at: "/bin", target: "usr/bin" };
  const proc: Mount = { kind: "proc", at: "/proc" };
  const devices: Mount = { kind: "devices", at: "/dev" };
  const own = [read("/"), read("/proc"), read("/dev/x"), proc, devices];

  it.each<[string, readonly Mount[], readonly string[]]>([
    [
      "outer mounts come first",
      [write("/tmp/a/ws"), read("/tmp/a"), memory("/tmp")],
      ["memory /tmp", "read /tmp/a", "write /tmp/a/ws"],
    ],
    [
      "what may be written wins, at its path and inside of it",
      [read("/a/ws"), write("/a/ws"), read("/a/ws/data")],
      ["write /a/ws"],
    ],
    [
      "what is readable already is left out",
      [read("/usr"), read("/usr/lib/ext"), link, read("/bin/x")],
      ["read /usr", "link /bin"],
    ],
    ["a longer name is not inside", [read("/a/b"), read("/a/bc")], ["read /a/b", "read /a/bc"]],
    [
      "memory in memory is a folder",
      [memory("/tmp"), memory("/tmp/home"), memory("/home/me")],
      ["memory /tmp", "folder /tmp/home", "memory /home/me"],
    ],
    [
      "processes and devices are its own, even when everything is readable",
      [...own, memory("/dev/shm"), memory("/tmp"), write("/tmp/ws")],
      ["read /", "proc /proc", "devices /dev", "memory /tmp", "write /tmp/ws", "memory /dev/shm"],
    ],
  ])("%s", (_, mounts, expected) => {
    expect(orderMounts(mounts).map(({ kind, at }) => `${kind} ${at}`)).toEqual(expected);
  });
});

describe("the profile of Seatbelt", () => {
  const lines = (profile: string): readonly string[] => profile.split("\n");

  it("denies everything first, and every other line allows something", () => {
    const [version, deny, ...rest] = lines(seatbeltProfile({ read: ["/a"], write: ["/b"], network: "none" }));
    expect([version, deny]).toEqual(["(version 1)", "(deny default)"]);
    expect(rest.every((line) => line.startsWith("(allow ") && line.endsWith(")"))).toBe(true);
  });

  it("lets what is listed be read, and only what may be written be written", () => {
    const profile = seatbeltProfile({
      read: ["/Users/me/task"],
      write: ["/Users/me/run/ws"],
      network: "none",
    });
    const writes = lines(profile).filter((line) => line.startsWith("(allow file-write* "));
    expect(writes).toEqual(['(allow file-write* (subpath "/Users/me/run/ws"))']);
    const reads = lines(profile).filter((line) => line.startsWith("(allow file-read* "));
    expect(reads).toHaveLength(1);
    expect(reads[0]).toContain('(subpath "/Users/me/task") (subpath "/Users/me/run/ws"))');
    expect(reads[0]).not.toContain('"/Users"');
    expect(profile).not.toContain('(subpath "/Users/me")');
    expect(profile).toContain('(literal "/Users/me") (literal "/Users") (literal "/Users/me/run"))');
  });

  it("has a network only when asked", () => {
    const network = (how: "none" | "host"): boolean =>
      /network|system-socket/.test(seatbeltProfile({ read: [], write: [], network: how }));
    expect([network("none"), network("host")]).toEqual([false, true]);
  });

  it("leaves a line out rather than allow everything when nothing is listed", () => {
    expect(seatbeltProfile({ read: [], write: [], network: "none" })).not.toContain("file-write*");
  });

  it("keeps a path from ending its text", () => {
    const profile = seatbeltProfile({ read: ['/a") (allow default) ("\\'], write: [], network: "none" });
    expect(profile).toContain(String.raw`(subpath "/a\") (allow default) (\"\\")`);
  });
});

it("cleans up before an ended program is released, and after one is stopped", async () => {
  const events: string[] = [];
  const note = async (event: string): Promise<boolean> => events.push(event) > 0;
  const child = { exit: {}, release: () => note("release"), stop: () => note("stop") };
  const open = () =>
    confined(child as unknown as ManagedProcess, {
      brokenLimit: () => undefined,
      cleanUp: async () => void (await note("clean up")),
    });
  await open().release();
  await open().stop();
  expect(events).toEqual(["clean up", "release", "stop", "clean up"]);
});
