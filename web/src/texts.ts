// Every text that the dashboard shows. To translate it, translate the files in texts/.
import { coordination } from "./texts/coordination";
import { general } from "./texts/general";
import { server } from "./texts/server";
import { timing } from "./texts/timing";
import { work } from "./texts/work";

export const t = { ...general, ...work, ...timing, ...coordination, ...server };
