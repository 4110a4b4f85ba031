import { RadioIcon } from "lucide-react";
import { useEffect, useState } from "react";
import { useLive } from "@/hooks/use-live";
import { useOnline } from "@/hooks/use-online";
import { pollSeconds } from "@/hooks/use-table-invalidation";

// A socket that is back after a moment is nobody's news.
const patienceMs = 2000;

/** Says that colleagues' changes come late; without any network, `offline-bar` says more than that. */
export function LiveNote() {
  const lost = useLasting(!useLive(), patienceMs);
  const online = useOnline();
  return (
    <div
      role="status"
      className="pointer-events-none fixed inset-x-0 bottom-4 z-40 flex justify-center px-4 print:hidden"
    >
      {lost && online && (
        <p className="pointer-events-auto inline-flex animate-rise-in items-center gap-2.5 rounded-2xl bg-foreground px-4 py-2 font-medium text-background text-sm shadow-raised">
          <RadioIcon className="size-4 shrink-0" aria-hidden />
          Live updates are interrupted. Looking for changes every {pollSeconds} seconds.
        </p>
      )}
    </div>
  );
}

/** True once it has been so for a while. */
function useLasting(now: boolean, afterMs: number) {
  const [lasting, setLasting] = useState(false);
  useEffect(() => {
    if (!now) return setLasting(false);
    const timer = setTimeout(() => setLasting(true), afterMs);
    return () => clearTimeout(timer);
  }, [now, afterMs]);
  return lasting;
}
