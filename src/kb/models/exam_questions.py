"""The questions of the exam, by script.

Each has an answer that uses other words, except for one or two that matter, and a decoy that shares
the function words but has another topic. A model that counts common words prefers the decoy; a
model that cannot read the language chooses at random.
"""

from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    """A question with its answer and its decoy."""

    text: str
    answer: str
    decoy: str


# The questions by script, named as in the Unicode names of its letters; hiragana stands for
# Japanese.
QUESTIONS: dict[str, tuple[Question, ...]] = {
    "LATIN": (
        Question(
            "What do I have to do when I have lost the password of my account?",
            "Reset credentials: follow the link in the mail and choose a new password.",
            "I have sold the house of my mother when I had to do it.",
        ),
        Question(
            "How long does it take for the bread to be done in the oven?",
            "Bake the loaf for forty minutes; bread with a dark crust needs ten more.",
            "The train does take long to be back in the station.",
        ),
        Question(
            "Why is it that the leaves of a tree are what they are, that is, green?",
            "Chlorophyll absorbs red and blue light, which gives leaves their colour.",
            "The prices of a ticket are what they are, and that is it.",
        ),
        Question(
            "Which of the two is the one that is to be paid by the tenant, and when?",
            "Rent is due on the first of each month. A tenant who is late owes interest.",
            "The hymn is to be sung by the choir, and the other of the two is not.",
        ),
        Question(
            "Is there a way to find out if the battery of this phone is too old?",
            "A worn battery holds under 80 % of its charge; see Settings, Power, Phone.",
            "The owner of this shop is too busy if there is a crowd to serve.",
        ),
        Question(
            "What is it that makes the water of the sea rise when it does so?",
            "Tides come from the pull that the moon has on the sea and its water.",
            "The feast of the town makes the people sing, so it does.",
        ),
        Question(
            "How can I get the engine to start if it is too cold for it to do so?",
            "In frost, warm the glow plugs before you crank a cold diesel engine.",
            "The child can sleep if it is dark, and so do I.",
        ),
        Question(
            "Who was the one that had seen the moons of Jupiter, and with what?",
            "Galileo pointed his telescope at Jupiter in 1610 and drew four satellites.",
            "The guest had eaten the rest of dinner, and was with the one that left.",
        ),
        Question(
            "How do I make a list of all of the files that are in a folder?",
            "os.listdir returns the names in a directory; pathlib can walk files deeper.",
            "I make a cake of the fruits that are in a basket.",
        ),
        Question(
            "What should one do if there is a burn on the skin of the hand?",
            "Cool a burn under running water for twenty minutes, then cover the skin.",
            "There is a guest at the door of the house, and one should open it.",
        ),
        Question(
            "For how long do I have to keep the receipts of my business?",
            "The tax office may ask for receipts and ledgers of the past decade.",
            "I have to know the parents of my friend for that.",
        ),
        Question(
            "Why does the page take so much of it before it is shown to the user?",
            "Rendering is slow since large images and scripts block a page from loading.",
            "The king does take it before it is given to the poor.",
        ),
    ),
    "CJK": (
        Question(
            "我忘记了账户的密码以后应该怎么办?",
            "重新设置登录信息:点击邮件里的链接,再选一个新密码。",
            "我离开了父母的房子以后,应该搬到城里。",
        ),
        Question(
            "为什么夏天的时候树的叶子是绿色的?",
            "叶绿素吸收红光和蓝光,植物因此呈现这种颜色,叶子尤其如此。",
            "店的门口是什么时候打开的,夏天的时候是为了什么。",
        ),
        Question(
            "这个手机的电池是不是已经太旧了,怎么知道?",
            "若充满后只能维持八成电量,说明电池老化,可在设置中查看。",
            "这个商店的老板已经太忙了,是不是这个怎么也知道。",
        ),
        Question(
            "大海的水为什么每天都会涨起来又退下去?",
            "潮汐由月球和太阳对海洋的引力造成。",
            "镇上的人每天都会去市场,又会回来。",
        ),
        Question(
            "是谁最先看到了木星的卫星,用的是什么?",
            "伽利略在1610年把望远镜对准木星,画下了四个小天体。",
            "最先吃到了桌上的晚饭的是孩子。",
        ),
        Question(
            "手上的皮肤被烫伤了,应该马上做什么?",
            "烫伤后用流动的冷水冲二十分钟,再轻轻盖住。",
            "门口的客人被淋湿了,应该做什么就马上做什么。",
        ),
        Question(
            "怎么样才能列出一个文件夹里面的所有文件?",
            "os.listdir 返回目录中的名字,pathlib 还能逐层遍历文件。",
            "怎么样一个篮子里面的所有水果,这样才能买到。",
        ),
        Question(
            "房客要付的钱是什么时候必须付的?",
            "租金每月一日到期,房客逾期需付利息。",
            "孩子要唱的歌是必须唱的,什么时候都是要唱的。",
        ),
    ),
    "HIRAGANA": (
        Question(
            "アカウントのパスワードを忘れたときはどうすればいいですか?",
            "ログイン情報の再設定:メールのリンクを開き、新しいパスワードを選びます。",
            "カレンダーのページを破ったときは、どうすればいいかはいいのです。",
        ),
        Question(
            "どうして夏になると木の葉は緑色なのですか?",
            "葉緑素は赤と青の光を吸収するので、葉はその色に見える。",
            "夏になると店の人は忙しいので、どうしてもそうなるのです。",
        ),
        Question(
            "この携帯電話の電池が古すぎるかどうかを知る方法はありますか?",
            "充電しても八割しかもたない電池は劣化している。設定で確認できる。",
            "この小さな店の主人が忙しいかどうかは、知る方法がどうかによります。",
        ),
        Question(
            "海の水が毎日高くなったり低くなったりするのはなぜですか?",
            "潮の満ち引きは、月と太陽が海を引く力によって起こる。",
            "町の人が毎日上がったり下がったりするのは、するからするのです。",
        ),
        Question(
            "木星の月を最初に見たのは誰で、何を使いましたか?",
            "ガリレオは1610年に望遠鏡を木星に向け、四つの衛星を描いた。",
            "夕食の皿を最初に洗ったのは子どもです。",
        ),
        Question(
            "手にやけどをしたときは、すぐに何をするべきですか?",
            "やけどは流水で二十分冷やし、それからゆるく覆う。",
            "家に客が来たときは、すぐにお茶を出します。",
        ),
        Question(
            "フォルダの中にあるすべてのファイルを一覧にするにはどうしますか?",
            "os.listdir はディレクトリ内の名前を返し、pathlib はファイルを奥までたどれる。",
            "かごの中にあるすべてのくだものをケーキにするには、どうにかします。",
        ),
        Question(
            "パンがオーブンで焼けるまでにどのくらいかかりますか?",
            "生地は四十分焼く。皮の濃いパンならあと十分。",
            "電車が駅に戻ってくるまでに、どのくらいでもかかります。",
        ),
    ),
    "HANGUL": (
        Question(
            "계정의 비밀번호를 잊어버렸을 때는 어떻게 해야 하나요?",
            "로그인 정보 재설정: 메일의 링크를 열고 새 비밀번호를 정하세요.",
            "가게의 유리창을 깨뜨렸을 때는 주인이 화를 냈다.",
        ),
        Question(
            "왜 여름에는 나무의 잎이 초록색인가요?",
            "엽록소가 붉은빛과 푸른빛을 흡수하므로 잎이 그런 색을 띤다.",
            "여름에는 가게의 문이 열려 있다.",
        ),
        Question(
            "이 휴대전화의 배터리가 너무 오래되었는지 알 수 있는 방법이 있나요?",
            "충전해도 팔십 퍼센트밖에 못 쓰는 배터리는 수명이 다한 것이다. 설정에서 확인한다.",
            "이 작은 가게의 주인은 너무 바빠서 쉴 수 있는 날이 없다.",
        ),
        Question(
            "바다의 물이 매일 올라갔다가 내려가는 것은 무엇 때문인가요?",
            "밀물과 썰물은 달과 태양이 바다를 끌어당겨서 생긴다.",
            "마을의 사람이 매일 시장에 가는 것은 흔한 일이다.",
        ),
        Question(
            "목성의 달을 처음 본 사람은 누구이고 무엇을 썼나요?",
            "갈릴레오는 1610년에 망원경을 목성으로 돌려 위성 네 개를 그렸다.",
            "저녁의 밥을 처음 먹은 사람은 아이였다.",
        ),
        Question(
            "손에 화상을 입었을 때는 바로 무엇을 해야 하나요?",
            "화상은 흐르는 물에 이십 분 동안 식힌 뒤 느슨하게 덮는다.",
            "집에 손님이 왔을 때는 바로 차를 낸다.",
        ),
        Question(
            "폴더 안에 있는 모든 파일을 목록으로 만들려면 어떻게 하나요?",
            "os.listdir는 디렉터리의 이름을 돌려주고 pathlib는 파일을 끝까지 훑는다.",
            "바구니 안에 있는 모든 과일을 케이크에 넣었다.",
        ),
        Question(
            "빵이 오븐에서 다 구워지는 데 얼마나 걸리나요?",
            "반죽은 사십 분 굽고, 껍질이 진한 빵은 십 분 더 둔다.",
            "기차가 역으로 다 돌아오는 데 하루가 걸린다.",
        ),
    ),
}
