import { lazy, Suspense, useState, useSyncExternalStore } from "react";
import { toastPlace } from "@/lib/toast-later";

const Toaster = lazy(() => import("@/components/ui/toaster").then(({ Toaster }) => ({ default: Toaster })));

interface LateToasterProps {
  /** On screens where a press may raise a toast at once. */
  needed: boolean;
}

/** The place for toasts, which public pages do without until one is raised. */
export function LateToaster({ needed }: LateToasterProps) {
  const wanted = useSyncExternalStore(toastPlace.watch, toastPlace.isWanted);
  const [here, setHere] = useState(needed);
  if (!here && (needed || wanted)) setHere(true);
  if (!here) return null;
  return (
    <Suspense>
      <Toaster />
    </Suspense>
  );
}
