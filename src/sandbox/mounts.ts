/** One thing that a bubblewrap sandbox has at a path, which is absolute. Sizes are in bytes. */
export type Mount = { readonly at: string } & (
  | { readonly kind: "read"; readonly source: string }
  | { readonly kind: "write"; readonly source: string }
  | { readonly kind: "link"; readonly target: string }
  /** A fresh file system in memory. */
  | { readonly kind: "memory"; readonly size: number }
  /** A fresh empty folder in what the mount around it has. */
  | { readonly kind: "folder" }
  | { readonly kind: "proc" }
  | { readonly kind: "devices" }
);
