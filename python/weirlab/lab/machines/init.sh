#!/bin/sh
# The first process of a virtual machine of Weir's own: loads the drivers of its devices, then does what its
# owner asks over the virtio port weir.agent. A request is a line "NUMBER SCRIPT", the script in base64; the
# answer is a line "NUMBER CODE OUTPUT", the output in base64 as well.
export PATH=/usr/bin

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in virtio_pci virtio_net virtio_console; do
  modprobe "$module" || echo "weir: $module cannot be loaded" >/dev/console
done

port=
until [ -n "$port" ]; do
  for each in /sys/class/virtio-ports/*; do
    if [ "$(cat "$each/name" 2>/dev/null)" = weir.agent ]; then port=/dev/${each##*/}; fi
  done
  [ -n "$port" ] || sleep 0.05
done

exec 3<>"$port"
echo "ready $(uname -r)" >&3
while :; do
  while read -r number script <&3; do
    printf %s "$script" | base64 -d >/run/script
    sh /run/script >/run/said 2>&1 </dev/null 3>&-
    code=$?
    printf '%s %s ' "$number" "$code" >&3
    base64 -w 0 /run/said >&3
    echo >&3
  done
  # The owner hung up; QEMU ends with it.
  sleep 0.1
done
