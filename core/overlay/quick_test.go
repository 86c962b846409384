package overlay

import ("testing";"context";"os";"os/exec";"fmt";"path/filepath";"github.com/launch-ml/launch/core/config")

func TestQuick(t *testing.T){
 dir:=t.TempDir()
 py:=os.Getenv("PY"); if py=="" {py="/usr/bin/python3"}
 p:=filepath.Join(dir,"train.py"); os.WriteFile(p,[]byte(`"""doc"""
from __future__ import annotations
from dataclasses import dataclass
import sys, inspect, os
LIMIT = 4
@dataclass
class Config:
    batch_size: int = 64
    lr: float = 0.1
def main():
    c = Config()
    print(c, LIMIT, len(inspect.stack()), sys.path[0], sys.argv, __file__, __spec__, __loader__, __cached__, "runpy" in sys.modules, sorted(globals()))
    print(sys._getframe(1).f_back)
if __name__ == "__main__":
    main()
    if len(sys.argv)>1:
        exec(sys.argv[1])
`),0o600)
 s:=Read(context.Background(),py,os.Environ(),dir,[]string{p})[0]
 fmt.Println(s.Problem); for _,it:=range s.Items{fmt.Println(it.Path,string(it.Value),it.Literal,string(s.Text[it.Start:it.End]))}
 d,_:=config.OpenPython(&s); fmt.Println(d.Set("Config.batch_size","8"),d.Set("LIMIT","9"))
 o,err:=Install(filepath.Join(dir,"attempt"),[]File{{p,s.SHA256,d.Bytes(),[]string{"Config.batch_size","LIMIT"}}},os.Environ())
 fmt.Println(o,err)
 for _,a:=range [][]string{{"train.py"},{"train.py","raise KeyError(1)"},{"train.py","sys.exit('bye')"},{"train.py","raise KeyboardInterrupt"},{"-m","train"}} {
 for i:=0;i<2;i++{
 c:=exec.Command(py,a...); c.Dir=dir; c.Env=os.Environ(); if i==1 {c.Env=append(c.Env,o.Env...)}
 out,err:=c.CombinedOutput(); fmt.Println(string(out),err)
 }}
 b,_:=os.ReadFile(filepath.Join(dir,"attempt","report.jsonl")); fmt.Println(string(b))
 fmt.Println(o.Report())
}
