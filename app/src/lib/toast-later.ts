import type { ExternalToast, toast } from "sonner";

let tellMounted: (raise: typeof toast) => void = () => {};
/** A toast that is raised before there is a place for it is lost. */
const mounted = new Promise<typeof toast>((resolve) => {
  tellMounted = resolve;
});
let wanted = false;
const watchers = new Set<() => void>();

/** As `toast.error`, for code of the first page: the library, and the place for toasts, come when there is something to tell. */
export function toastError(title: string, options?: ExternalToast) {
  wanted = true;
  for (const watcher of watchers) watcher();
  // Where even that cannot be fetched, the screen itself says that the server is away.
  void mounted.then((toast) => toast.error(title, options));
}

/** For the place that shows toasts. */
export const toastPlace = {
  isWanted: () => wanted,
  watch: (changed: () => void) => {
    watchers.add(changed);
    return () => void watchers.delete(changed);
  },
  isMounted: (raise: typeof toast) => tellMounted(raise),
};
