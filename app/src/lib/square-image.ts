const mostBytes = 20 * 1024 * 1024;

export type SquareShape = "fit" | "crop";

/** A picture as a square PNG: whole, with room around it, or its middle. Also leaves out what cameras write into pictures. */
export async function toSquare(file: File, shape: SquareShape, side: number): Promise<Blob> {
  const picture = await decode(file);
  const canvas = document.createElement("canvas");
  canvas.width = side;
  canvas.height = side;
  const { width, height } = picture;
  const scale = (shape === "fit" ? Math.min : Math.max)(side / width, side / height);
  const context = canvas.getContext("2d");
  if (!context) throw new Error("This browser cannot work on pictures.");
  context.imageSmoothingQuality = "high";
  context.drawImage(picture, (side - width * scale) / 2, (side - height * scale) / 2, width * scale, height * scale);
  picture.close();
  return new Promise((resolve, reject) => {
    canvas.toBlob(
      (blob) => (blob ? resolve(blob) : reject(new Error("The picture could not be converted."))),
      "image/png",
    );
  });
}

async function decode(file: File) {
  if (!file.type.startsWith("image/")) throw new Error("Please choose an image file.");
  if (file.size > mostBytes) throw new Error("Please choose an image of at most 20 MB.");
  try {
    return await createImageBitmap(file);
  } catch (cause) {
    throw new Error("This image could not be read. Use PNG, JPEG, GIF or WebP.", { cause });
  }
}
