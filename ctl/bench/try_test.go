package bench
import ("testing";"context";"os";"time";"encoding/json";"strconv";"strings"
"github.com/funet/funet/ctl/lab")
func TestTry(t *testing.T){
 if os.Getenv("TRY")=="" {return}
 leavesNothing(t)
 l:=newLab(t,lab.Options{})
 n,_:=strconv.Atoi(os.Getenv("TRY"))
 var only []string
 if v:=os.Getenv("ONLY");v!=""{only=strings.Split(v,",")}
 o:=Options{Rounds:n,RoleCommand:[]string{roleArg},Progress:os.Stderr,Only:only}
 s:=time.Now()
 a,b,res,err:=CalibrateMode(context.Background(),l,o)
 j,_:=json.MarshalIndent(res,""," ")
 t.Log(a,b,string(j),err,time.Since(s))
 o.Attach,o.Bind=a,b
 r,err:=Peers(context.Background(),l,o)
 if err!=nil{t.Fatal(err)}
 r.WriteTable(os.Stderr)
 j,_=json.Marshal(r)
 t.Log(string(j))
}
