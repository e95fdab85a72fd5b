#!/usr/bin/env bash
# Does what people do in a project every day, with the real tools, first in a plain directory and
# then in a mounted one. Prints what fails, and counts for both. Ends with status 1 if a check fails
# on the mount and not in the plain directory. It skips tools that are not installed, and npm's
# packages if there is no network.
#   scripts/safety/everyday.sh [CACHEBRO]
set -uo pipefail
bin=$(realpath "${1:-bin/cachebro}")
base=$(mktemp -d)
export XDG_STATE_HOME=$base/state XDG_RUNTIME_DIR=$base/run
mkdir "$base/run" "$base/plain" "$base/mounted"
chmod 700 "$base/run"
finish() {
  cd /
  "$bin" umount --lazy "$base/mounted" >/dev/null 2>&1
  for pid in $(grep -lzx "XDG_RUNTIME_DIR=$base/run" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
    [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$bin" ] && kill "$pid" 2>/dev/null
  done
  sleep 0.3
  rm -rf "$base"
}
trap finish EXIT

# ok NAME SCRIPT runs one check in the directory D.
ok() {
  (cd "$D" && timeout 300 bash -ec "$2") >"$out/$1" 2>&1 && echo "$1" >>"$out/passed" && return
  echo "$1" >>"$out/failed"
  echo "  $1: $(tail -n 3 "$out/$1" | tr '\n' ' ')"
}

checks() {
  ok make 'mkdir mk; cd mk; printf "all: a.out\n\t./a.out > res\na.out: a.c\n\tcc -o a.out a.c\n" > Makefile; printf "#include <stdio.h>\nint main(){puts(\"hi\");}\n" > a.c; make; grep hi res; make | grep -q "a.out > res"'
  ok gobuild 'mkdir gb; cd gb; go mod init x; printf "package main\nfunc main(){println(1)}\n" > m.go; printf "package main\nimport \"testing\"\nfunc TestA(t *testing.T){}\n" > m_test.go; go build -o app .; ./app; go test ./...; go test -c -o t.test .; ./t.test; go run .; go vet ./...'
  ok sqlite 'python3 - <<P
import sqlite3
for mode in ("wal","delete","truncate"):
  c=sqlite3.connect("db-"+mode); c.execute("pragma journal_mode="+mode); c.execute("create table a(x)")
  for i in range(50):
    c.execute("insert into a values(?)",(i,)); c.commit()
  d=sqlite3.connect("db-"+mode); assert d.execute("select count(*) from a").fetchone()[0]==50
  assert c.execute("pragma integrity_check").fetchone()[0]=="ok"
P'
  ok venv 'python3 -m venv v; . v/bin/activate; python -c "import sys; print(sys.prefix)"; pip --version; python -m compileall -q v/lib > /dev/null'
  ok flock 'flock lk -c "flock -n lk -c true && exit 1 || exit 0"'
  ok fcntl 'python3 - <<P
import fcntl,os
f=open("fl","w"); fcntl.lockf(f,fcntl.LOCK_EX)
p=os.fork()
if p==0:
  g=open("fl","w")
  try: fcntl.lockf(g,fcntl.LOCK_EX|fcntl.LOCK_NB); os._exit(1)
  except OSError: os._exit(0)
assert os.waitpid(p,0)[1]==0
P'
  ok fifo 'mkfifo ff; (echo hi > ff &); read x < ff; [ "$x" = hi ]'
  ok socket 'python3 - <<P
import socket,os,threading
s=socket.socket(socket.AF_UNIX); s.bind("sk"); s.listen()
c=socket.socket(socket.AF_UNIX); c.connect("sk"); a,_=s.accept(); c.send(b"x"); assert a.recv(1)==b"x"
P'
  ok mmap 'python3 - <<P
import mmap,os
f=open("mm","w+b"); f.truncate(1<<20); m=mmap.mmap(f.fileno(),1<<20); m[0:5]=b"hello"; m[(1<<20)-1:]=b"z"; m.flush()
assert open("mm","rb").read(5)==b"hello"
P'
  ok tmpfile 'python3 - <<P
import os,ctypes
l=ctypes.CDLL("libc.so.6",use_errno=True)
fd=os.open(".",os.O_TMPFILE|os.O_RDWR,0o600); os.write(fd,b"hi"); assert l.linkat(-100,b"/proc/self/fd/%d"%fd,-100,b"linked",0x400)==0, os.strerror(ctypes.get_errno()); assert open("linked").read()=="hi"
P'
  ok inotify 'python3 - <<P
import ctypes,os,threading,select
l=ctypes.CDLL("libc.so.6",use_errno=True); os.mkdir("ino"); fd=l.inotify_init(); assert l.inotify_add_watch(fd,b"ino",0xfff)>0
open("ino/a","w").write("x"); os.rename("ino/a","ino/b"); os.unlink("ino/b")
r,_,_=select.select([fd],[],[],5); assert r; assert len(os.read(fd,65536))>100
P'
  ok vim 'command -v vim || exit 0; printf "a\nb\n" > v.txt; vim -u NONE -es -c "%s/a/c/" -c wq v.txt; grep -q c v.txt'
  ok perl_i 'printf "a\n" > p.txt; perl -pi -e s/a/b/ p.txt; grep -q b p.txt'
  ok rsync 'command -v rsync || exit 0; rsync -a /usr/share/doc/bash/ rs/; diff -r /usr/share/doc/bash rs'
  ok cp_a 'cp -a /usr/lib/python3 cpa; diff -r /usr/lib/python3 cpa; rm -rf cpa'
  ok tar 'tar cf - -C /usr/share doc/bash | tar xf -; diff -r /usr/share/doc/bash doc/bash'
  ok zip 'command -v zip unzip || exit 0; mkdir z; echo a > z/a; zip -qr z.zip z; rm -r z; unzip -q z.zip; grep a z/a'
  ok patch 'printf "a\nb\n" > x1; printf "a\nc\n" > x2; diff -u x1 x2 > x.patch || true; patch x1 x.patch; cmp x1 x2'
  ok hardlink 'echo a > h1; ln h1 h2; [ h1 -ef h2 ]; echo b >> h2; grep b h1; rm h1; grep b h2; [ $(stat -c %h h2) = 1 ]'
  ok reflink 'echo a > r1; cp --reflink=auto r1 r2; cmp r1 r2'
  ok sparse 'truncate -s 100M sp; printf x | dd of=sp bs=1 seek=50M conv=notrunc status=none; cp --sparse=always sp sp2; cmp sp sp2; rm sp sp2'
  ok fallocate 'fallocate -l 1M fa; fallocate -p -o 0 -l 4096 fa; [ $(stat -c %s fa) = 1048576 ]'
  ok xattr 'setfattr -n user.a -v b x1; getfattr -n user.a x1 | grep b; setfattr -x user.a x1'
  ok acl 'setfacl -m u:nobody:r x1; getfacl x1 | grep nobody'
  ok chmod 'chmod 640 x1; [ $(stat -c %a x1) = 640 ]; chmod +t .; chmod -t .'
  ok chown '[ $(id -u) = 0 ] || exit 0; chown nobody x1; [ $(stat -c %U x1) = nobody ]; chown root x1'
  ok touch 'touch -d 2001-01-01 x1; [ $(stat -c %Y x1) = $(date -d 2001-01-01 +%s) ]'
  ok longname 'n=$(printf %255s | tr " " n); echo a > $n; cat $n; rm $n; ! echo a > ${n}x'
  ok deep 'p=.; for i in $(seq 60); do p=$p/dddddddddddddddddddd; done; mkdir -p $p; echo a > $p/f; find . -name f | grep -q ddd; rm -rf ddd*'
  ok manyfiles 'mkdir mf; cd mf; seq 3000 | xargs touch; [ $(ls | wc -l) = 3000 ]; ls | xargs rm; [ -z "$(ls)" ]'
  ok rmcwd 'mkdir rc; cd rc; rmdir ../rc; ls; ! touch a'
  ok git 'mkdir g; cd g; git init -q; git config user.email a@b; git config user.name n; for i in 1 2 3; do echo $i > f$i; git add .; git commit -qm $i; done; git branch b HEAD~1; git checkout -q b; git worktree add -q ../gw HEAD~1 --detach; echo x > f9; git add f9; git stash -q; git stash pop -q; git commit -qm m; git checkout -q -; git merge -q b -m mm; git rebase -q HEAD~1 || true; git gc -q; git fsck; printf "#!/bin/sh\necho hooked > ran\n" > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo y > f10; git add f10; git commit -qm hook; [ -f ran ]; git bisect start HEAD HEAD~2 -q; git bisect run true; git bisect reset'
  ok gitclone 'git clone -q g gc1; cd gc1; git log --oneline | wc -l'
  ok npmrun 'mkdir np; cd np; echo "{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"hi\":\"./s.sh\"}}" > package.json; printf "#!/bin/sh\necho yes > out\n" > s.sh; chmod +x s.sh; npm run hi; grep yes out'
  ok esbuild 'mkdir es; cd es; npm init -y; npm i esbuild; echo "export const a:number=1" > a.ts; npx esbuild a.ts --bundle --outfile=o.js; cat o.js'
  ok vite 'mkdir vi; cd vi; npm init -y; npm i vite@5; echo "<script type=module src=/m.js></script>" > index.html; echo "console.log(1)" > m.js; npx vite build; ls dist'
  ok jest 'mkdir je; cd je; npm init -y; npm i jest@29; echo "test(\"a\",()=>{expect(1).toBe(1)})" > a.test.js; npx jest'
  ok nodewatch 'cat > w.js <<W
const fs=require("fs"); fs.writeFileSync("wf","a"); const w=fs.watch(".",(e,f)=>{ if(f=="wf"){console.log("seen");process.exit(0)} }); setTimeout(()=>fs.writeFileSync("wf","b"),200); setTimeout(()=>process.exit(1),5000);
W
node w.js'
  ok cargo 'command -v cargo || exit 0; cargo init --name cc cc; cd cc; printf "fn main(){println!(\"b\");}" > build.rs; cargo run --offline; cargo test --offline'
  ok cmake 'command -v cmake || exit 0; mkdir cm; cd cm; printf "cmake_minimum_required(VERSION 3.10)\nproject(x C)\nadd_executable(x x.c)\n" > CMakeLists.txt; echo "int main(){return 0;}" > x.c; cmake -B b . ; cmake --build b; ./b/x'
  ok gccso 'mkdir so; cd so; echo "int f(){return 7;}" > f.c; cc -shared -fPIC -o libf.so f.c; python3 -c "import ctypes; assert ctypes.CDLL(\"./libf.so\").f()==7"'
  ok df 'df . >/dev/null; du -s . >/dev/null'
  ok find 'find . -newer x1 -type f | head -3 >/dev/null; find . -empty -name zzz'
  ok tailf 'echo a > tf; (timeout 3 tail -f tf > tf.out &); sleep 0.5; echo b >> tf; for i in 1 2 3 4 5 6; do sleep .3; grep -q b tf.out && exit 0; done; exit 1'
  ok append2 '(for i in $(seq 200); do echo a >> ap; done) & (for i in $(seq 200); do echo b >> ap; done) & wait; [ $(wc -l < ap) = 400 ]'
  ok direct 'dd if=/dev/zero of=di bs=4096 count=10 oflag=direct status=none; dd if=di of=/dev/null bs=4096 iflag=direct status=none'
  ok sendfile 'python3 - <<P
import os
a=open("x1","rb"); b=open("sf","wb"); os.sendfile(b.fileno(),a.fileno(),0,100); b.close(); assert open("sf","rb").read()==open("x1","rb").read()
os.copy_file_range(os.open("x1",os.O_RDONLY),os.open("cf",os.O_WRONLY|os.O_CREAT),100)
P'
  ok ioring 'command -v fio || exit 0; fio --name=a --rw=randrw --size=2M --bs=4k --ioengine=io_uring --verify=crc32c --filename=fi --minimal >/dev/null || fio --name=a --rw=randrw --size=2M --bs=4k --ioengine=libaio --verify=crc32c --filename=fi --minimal > /dev/null'
  ok statx 'stat -c "%w %W" x1; [ "$(stat -c %W x1)" -gt 0 ]'
  ok casen 'echo a > Case; ! test -e case'
  ok symloop 'ln -s sl2 sl1; ln -s sl1 sl2; ! cat sl1; rm sl1 sl2'
  ok dirsym 'mkdir ds; ln -s ds dl; echo a > dl/f; cat ds/f; (cd dl; pwd -P | grep -q "/ds$"); rm dl; rmdir ds 2>/dev/null || rm -r ds'
  ok readonly 'echo a > ro; chmod 444 ro; [ $(id -u) = 0 ] || ! echo b > ro; rm -f ro'
  ok mvdir 'mkdir -p md/a; echo x > md/a/f; mv md md2; cat md2/a/f; mv md2/a .; cat a/f'
  ok ioctl 'lsattr x1 || true; python3 -c "import fcntl,termios,array; f=open(\"x1\"); a=array.array(\"i\",[0]); fcntl.ioctl(f,termios.FIONREAD,a)" || true'
  ok locale 'touch "ü ñ 日本" ; ls | grep -q 日本'
  ok setuid 'cp /bin/true st; chmod u+s st; [ -u st ]; echo x >> st; [ ! -u st ] || [ $(id -u) = 0 ]'
  ok dotgitlock 'cd g; touch .git/index.lock; ! git add . 2>/dev/null; rm .git/index.lock; git status >/dev/null'
}

run() {
  D=$1 out=$base/out-$2
  mkdir "$out"
  touch "$out/passed" "$out/failed"
  echo "$2:"
  checks
  echo "  $(wc -l <"$out/passed") passed, $(wc -l <"$out/failed") failed"
}

run "$base/plain" plain
"$bin" mount "$base/mounted" >/dev/null || exit
run "$base/mounted" mounted
new=$(sort "$base"/out-plain/failed | comm -13 - <(sort "$base"/out-mounted/failed))
[ -z "$new" ] || { echo "fail only on the mount:" $new; exit 1; }
