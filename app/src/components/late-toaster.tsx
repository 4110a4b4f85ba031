import { useState, useSyncExternalStore } from "react";
import { lazyExtra } from "@/components/lazy-part";
import { toastPlace } from "@/lib/toast";

const Toaster = lazyExtra(() => import("@/components/ui/toaster").then(({ Toaster }) => Toaster));

interface LateToasterProps {
  /** On screens where a press may raise a toast: it is fetched before, because a toast may report a lost connection. */
  needed: boolean;
}

/** The place for toasts, which public pages do without until one is raised. */
export function LateToaster({ needed }: LateToasterProps) {
  const wanted = useSyncExternalStore(toastPlace.watch, toastPlace.isWanted);
  const [isMounted, setMounted] = useState(needed);
  if (!isMounted && (needed || wanted)) setMounted(true);
  return isMounted && <Toaster />;
}
