import { CircleAlertIcon, CircleCheckIcon, InfoIcon, TriangleAlertIcon } from "lucide-react";
import type { ComponentProps, ReactNode } from "react";
import { cn } from "@/lib/cn";

const tones = {
  info: { Icon: InfoIcon, looks: "bg-info-soft", icon: "text-info" },
  success: { Icon: CircleCheckIcon, looks: "bg-success-soft", icon: "text-success" },
  warning: { Icon: TriangleAlertIcon, looks: "bg-warning-soft", icon: "text-warning" },
  destructive: { Icon: CircleAlertIcon, looks: "bg-destructive-soft", icon: "text-destructive" },
};

interface AlertProps extends Omit<ComponentProps<"div">, "title"> {
  tone?: keyof typeof tones;
  title?: string;
  /** What can be done about it. */
  action?: ReactNode;
}

/** A note within the page. What appears while a person works needs `role="alert"` or `"status"` of the caller. */
export function Alert({ tone = "info", title, action, className, children, ...props }: AlertProps) {
  const { Icon, looks, icon } = tones[tone];
  return (
    <div
      className={cn("flex gap-3 rounded-md px-3.5 py-3 text-sm focus:outline-2 focus:outline-ring", looks, className)}
      {...props}
    >
      <Icon aria-hidden className={cn("mt-0.5 size-4.5 shrink-0", icon)} />
      <div className="grid min-w-0 grow gap-1 [overflow-wrap:anywhere]">
        {title && <p className="font-semibold">{title}</p>}
        {children}
        {action && <div className="mt-1.5 flex flex-wrap gap-2">{action}</div>}
      </div>
    </div>
  );
}
