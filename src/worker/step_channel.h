// StepChannel: how the program of a job reads and saves results of its steps.
//
//   program ──fd 3──▶ {"step":{"name":"pay","ask":"7"}}                 is there a result?
//           ◀──fd 4── {"ask":"7","name":"pay","found":false}            no: run it
//           ──fd 3──▶ {"step":{"name":"pay","ask":"8","result":{…}}}    save it
//           ◀──fd 4── {"ask":"8","name":"pay","found":true,"result":{…}}   it is saved, durably
//
// An answer may be {"ask":…,"name":…,"error":"…","code":"conflict"} instead. `ask` is any text:
// several processes of one program use it to match their answers. A process must hold a lock on fd
// 3 (fcntl F_SETLKW) while it asks and reads, else it may get the answer for another process.
#pragma once

#include <string>

#include "env/fd.h"
#include "mainspring/context.h"
#include "worker/program_words.h"

namespace mainspring {

class StepChannel {
 public:
  // Errors: io_error, overloaded (see is_shortage).
  static Result<StepChannel> open();
  int program_end() const { return theirs_.get(); }
  // Answers one line. Errors: io_error (the program has not read earlier answers).
  Result<void> answer(StepSaid& said, Context& context);
  // Answers an unreadable line, so that the program does not wait forever.
  Result<void> refuse(const Error& error);

 private:
  Result<void> write(std::string line);
  StepChannel(Fd ours, Fd theirs) : ours_(std::move(ours)), theirs_(std::move(theirs)) {}
  Fd ours_, theirs_;
};

}  // namespace mainspring
