import type { ExternalToast, toast as sonner } from "sonner";

type Kind = "success" | "error" | "info";

let markMounted: (mounted: typeof sonner) => void = () => {};
/** Resolves once toasts have a place on the page: one that is raised before is lost. */
const mounted = new Promise<typeof sonner>((resolve) => {
  markMounted = resolve;
});
let wanted = false;
const watchers = new Set<() => void>();

function raise(kind: Kind) {
  return (title: string, options?: ExternalToast) => {
    wanted = true;
    for (const watcher of watchers) watcher();
    // If even the library cannot be fetched, the screen itself shows that the server cannot be reached.
    void mounted.then((toast) => toast[kind](title, options));
  };
}

/** Raises toasts. No screen waits for the library that draws them: it is fetched after them (`late-toaster`). */
export const toast = {
  success: raise("success"),
  error: raise("error"),
  info: raise("info"),
  dismiss: (id: string) => void mounted.then((toast) => toast.dismiss(id)),
};

/** For the component that shows toasts. */
export const toastPlace = {
  isWanted: () => wanted,
  watch: (changed: () => void) => {
    watchers.add(changed);
    return () => void watchers.delete(changed);
  },
  isMounted: (toast: typeof sonner) => markMounted(toast),
};
