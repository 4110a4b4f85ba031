import { CheckIcon } from "lucide-react";
import { Button } from "@/components/ui/button";
import { Dialog, DialogClose, DialogContent } from "@/components/ui/dialog";
import { DialogBody, DialogFooter } from "@/components/ui/dialog-panel";
import { safeUrl } from "@/lib/safe-url";
import type { Prompt } from "./prompt-query";

interface PromptDialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  prompt: Prompt;
  onViewPlans: () => void;
}

export function PromptDialog({ open, onOpenChange, prompt, onViewPlans }: PromptDialogProps) {
  const image = safeUrl(prompt.image_url);
  return (
    <Dialog open={open} onOpenChange={onOpenChange}>
      <DialogContent title={prompt.title} description={prompt.subtitle}>
        <DialogBody className="grid content-start gap-5">
          {image && <img src={image} alt="" className="max-h-48 w-full rounded-lg object-contain" />}
          <ul className="grid gap-3 text-sm">
            {prompt.features.map((feature) => (
              <li key={feature} className="flex gap-3 [overflow-wrap:anywhere]">
                <CheckIcon className="mt-0.5 size-4 shrink-0 text-primary" strokeWidth={2.5} aria-hidden />
                <span className="min-w-0">{feature}</span>
              </li>
            ))}
          </ul>
        </DialogBody>
        <DialogFooter>
          <DialogClose asChild>
            <Button variant="secondary">{prompt.secondary_button_text}</Button>
          </DialogClose>
          <Button onClick={onViewPlans}>{prompt.primary_button_text}</Button>
        </DialogFooter>
      </DialogContent>
    </Dialog>
  );
}
