import { CircleAlertIcon, CircleCheckIcon, InfoIcon, TriangleAlertIcon } from "lucide-react";
import { useEffect } from "react";
import { Toaster as Sonner, toast } from "sonner";
import { useDialogOpen } from "@/hooks/use-dialog-open";
import { useIsMobile } from "@/hooks/use-is-mobile";
import { useTheme } from "@/hooks/use-theme";
import { toastPlace } from "@/lib/toast-later";

export function Toaster() {
  const [theme] = useTheme();
  const isMobile = useIsMobile();
  const dialogOpen = useDialogOpen();
  // After Sonner's own effect, from which on it hears of toasts.
  useEffect(() => toastPlace.isMounted(toast), []);
  return (
    <Sonner
      theme={theme}
      // Never over a dialog's buttons: on a phone the lower edge is theirs, at a desk they may reach the corner.
      position={isMobile || dialogOpen ? "top-center" : "bottom-right"}
      mobileOffset={{ top: dialogOpen ? "0.5rem" : "4.5rem" }}
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
