/** Whether a path is a folder or lies in it. Both are absolute and without `.` and `..`. */
export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
}
