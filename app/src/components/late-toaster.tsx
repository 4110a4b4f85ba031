import { useState, useSyncExternalStore } from "react";
import { lazyExtra } from "@/components/lazy-part";
import { toastPlace } from "@/lib/toast-later";

const Toaster = lazyExtra(() => import("@/components/ui/toaster").then(({ Toaster }) => Toaster));

interface LateToasterProps {
  /** On screens where a press may raise a toast at once. */
  needed: boolean;
}

/** The place for toasts, which public pages do without until one is raised. */
export function LateToaster({ needed }: LateToasterProps) {
  const wanted = useSyncExternalStore(toastPlace.watch, toastPlace.isWanted);
  const [here, setHere] = useState(needed);
  if (!here && (needed || wanted)) setHere(true);
  return here && <Toaster />;
}
