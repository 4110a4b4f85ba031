import { CloudOffIcon } from "lucide-react";
import { useOnline } from "@/hooks/use-online";

/** Over the page's lower edge while there is no network. */
export function OfflineBar() {
  const online = useOnline();
  return (
    <div role="status" className="pointer-events-none fixed inset-x-0 bottom-4 z-40 flex justify-center px-4">
      {!online && (
        <p className="pointer-events-auto inline-flex animate-rise-in items-center gap-2.5 rounded-full bg-foreground px-4 py-2 font-medium text-background text-sm shadow-raised">
          <CloudOffIcon className="size-4" aria-hidden />
          You are offline. Changes cannot be saved.
        </p>
      )}
    </div>
  );
}
