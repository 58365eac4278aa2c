# gnuplot ramp.plt: delays over the load of ramp.csv, into ramp.svg
set terminal svg size 800,500 font "sans-serif,13" background "white"
set output "ramp.svg"
set datafile separator ","
set key top left
set logscale y
set xlabel "load / threshold"
set ylabel "delay (us)"
set grid
plot "ramp.csv" using 2:4 skip 1 with points pt 7 lc 1 title "mean, ns-3", \
     "" using 2:8 skip 1 with lines lc 1 title "mean, model", \
     "" using 2:6 skip 1 with points pt 7 lc 2 title "p99, ns-3", \
     "" using 2:9 skip 1 with lines lc 2 title "p99, model"
