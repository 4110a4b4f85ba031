import { CircleAlertIcon, CircleCheckIcon, InfoIcon, TriangleAlertIcon } from "lucide-react";
import { useEffect } from "react";
import { Toaster as Sonner, toast } from "sonner";
import { useDialogOpen } from "@/hooks/use-dialog-open";
import { useIsMobile } from "@/hooks/use-is-mobile";
import { useTheme } from "@/hooks/use-theme";
import { toastPlace } from "@/lib/toast";

export function Toaster() {
  const [theme] = useTheme();
  const isMobile = useIsMobile();
  const dialogOpen = useDialogOpen();
  // After Sonner's own effect, from which on it hears of toasts.
  useEffect(() => toastPlace.isMounted(toast), []);
  useEffect(() => {
    document.addEventListener("pointerdown", releaseFocus, true);
    return () => document.removeEventListener("pointerdown", releaseFocus, true);
  }, []);
  return (
    <Sonner
      theme={theme}
      // Clear of headings, of new rows, which come first, and of a row's actions and a dialog's buttons, which are at the right.
      position={isMobile ? "bottom-center" : "bottom-left"}
      mobileOffset={{ bottom: dialogOpen ? "5.5rem" : "1rem" }}
      // Below menus, which a person has just opened; above the shade of a dialog.
      style={{ zIndex: dialogOpen ? 70 : 40 }}
      icons={{
        success: <CircleCheckIcon className="size-4.5 text-success" aria-hidden />,
        error: <CircleAlertIcon className="size-4.5 text-destructive" aria-hidden />,
        warning: <TriangleAlertIcon className="size-4.5 text-warning" aria-hidden />,
        info: <InfoIcon className="size-4.5 text-info" aria-hidden />,
      }}
      toastOptions={{
        classNames: {
          toast: "!rounded-lg !border-border !bg-surface-raised !font-sans !text-foreground !shadow-raised",
          title: "[overflow-wrap:anywhere]",
          description: "!text-muted-foreground [overflow-wrap:anywhere] line-clamp-6",
          actionButton: "!h-8 !rounded-md !bg-primary !px-3 !text-primary-foreground",
        },
      }}
    />
  );
}

/**
 * Sonner returns the focus that a toast had to the element before, also after a press elsewhere has moved it: a menu that the press opened
 * would close. Returned before the press, the focus stays where the press puts it.
 */
function releaseFocus({ target }: PointerEvent) {
  const focused = document.activeElement;
  const toaster = focused?.closest("[data-sonner-toaster]");
  if (toaster && focused instanceof HTMLElement && target instanceof Node && !toaster.contains(target)) focused.blur();
}
