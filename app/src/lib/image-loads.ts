export const deadImage = "This image could not be loaded. Check the address.";

const limitMs = 10_000;

/** Whether the browser can show the picture at an address, as the site's visitors would see it. */
export function imageLoads(url: string) {
  return new Promise<boolean>((resolve) => {
    const image = new Image();
    const timer = setTimeout(() => settle(false), limitMs);
    const settle = (loads: boolean) => {
      clearTimeout(timer);
      image.src = "";
      resolve(loads);
    };
    image.onload = () => settle(true);
    image.onerror = () => settle(false);
    image.src = url;
  });
}
