// StepChannel: how a program that runs for a job asks for its steps, and keeps their results.
//
//   program ──fd 3──▶ {"step":{"name":"pay","ask":"7"}}                 is there a result?
//           ◀──fd 4── {"ask":"7","name":"pay","found":false}            no: run it
//           ──fd 3──▶ {"step":{"name":"pay","ask":"8","result":{…}}}    this is it
//           ◀──fd 4── {"ask":"8","name":"pay","found":true,"result":{…}}   it is kept, durably
//
// An answer may be {"ask":…,"name":…,"error":"…","code":"conflict"} instead. `ask` is any text: by
// it several processes of one program tell their answers apart. Who does not hold fd 3's lock
// (fcntl F_SETLKW) while it asks and reads may get the answer of another.
#pragma once

#include <string>

#include "env/fd.h"
#include "mainspring/context.h"
#include "worker/program_words.h"

namespace mainspring {

class StepChannel {
 public:
  // Errors: io_error.
  static Result<StepChannel> open();
  int program_end() const { return theirs_.get(); }
  // Answers one line. Errors: io_error (the answers before it were not read).
  Result<void> answer(StepSaid& said, Context& context);
  // Answers a line that could not be read, so that the program does not wait for ever.
  Result<void> refuse(const Error& error);

 private:
  Result<void> write(std::string line);
  StepChannel(Fd ours, Fd theirs) : ours_(std::move(ours)), theirs_(std::move(theirs)) {}
  Fd ours_, theirs_;
};

}  // namespace mainspring
