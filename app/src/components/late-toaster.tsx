import { useEffect, useState, useSyncExternalStore } from "react";
import { lazyExtra } from "@/components/lazy-part";
import { toastPlace } from "@/lib/toast";

const Toaster = lazyExtra(() => import("@/components/ui/toaster").then(({ Toaster }) => Toaster));

const presses = ["pointerdown", "keydown"] as const;

interface LateToasterProps {
  /** On screens where a press may raise a toast: the first press mounts the region, before assistive technology needs it. */
  onPress: boolean;
}

/** The place for toasts, fetched with the first press or the first toast. */
export function LateToaster({ onPress }: LateToasterProps) {
  const wanted = useSyncExternalStore(toastPlace.watch, toastPlace.isWanted);
  const [isMounted, setMounted] = useState(false);
  if (!isMounted && wanted) setMounted(true);
  useEffect(() => {
    if (!onPress || isMounted) return;
    const mount = () => setMounted(true);
    for (const press of presses) document.addEventListener(press, mount, { once: true, passive: true });
    return () => {
      for (const press of presses) document.removeEventListener(press, mount);
    };
  }, [onPress, isMounted]);
  return isMounted && <Toaster />;
}
