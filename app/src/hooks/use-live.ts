import { useSyncExternalStore } from "react";
import { isLive, watchLive } from "@/lib/live";

/** Whether changes come by themselves; else this page has to ask for them. */
export function useLive() {
  return useSyncExternalStore(watchLive, isLive);
}
