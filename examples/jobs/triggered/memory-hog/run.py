# Allocates memory until it is stopped.
hoard = []
while True:
    hoard.append(bytearray(10 << 20))
    print(len(hoard) * 10, "MiB", flush=True)
